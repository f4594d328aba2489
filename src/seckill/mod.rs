//! seckill
