//! The plans for k6 and JMeter.

mod codes;
mod foreign_plans;
