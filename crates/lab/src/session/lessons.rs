//! Schedules that show something: scenarios of the matrix that two buyers, a consumer, the end of a lease and
//! a kill are enough for.

use serde::Serialize;

use ladder::Scenario::{self, *};

/// A schedule for a rung.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Lesson {
    /// The rung.
    pub rung: &'static str,
    /// What happens. Whether the rung withstands it is what the rung claims.
    pub scenario: Scenario,
    /// The steps.
    pub schedule: &'static str,
    /// As in a plan.
    pub users: u8,
    /// As in a plan.
    pub processes: u8,
    /// As in a plan.
    pub stock: i32,
}

const fn lesson(
    rung: &'static str,
    scenario: Scenario,
    schedule: &'static str,
    (users, processes, stock): (u8, u8, i32),
) -> Lesson {
    Lesson { rung, scenario, schedule, users, processes, stock }
}

/// All there are: the rung, what happens, the steps, and users, processes and stock.
pub const LESSONS: &[Lesson] = &[
    lesson("r01_naive", LastOne, "ABAB", (2, 1, 1)),
    lesson("r01_naive", DoubleClick, "ABAB", (1, 1, 2)),
    lesson("r02_row_lock", LastOne, "ABAB", (2, 1, 1)),
    lesson("r02_row_lock", DoubleClick, "ABAB", (1, 1, 2)),
    lesson("r03_version_cas", LastOne, "ABAB", (2, 1, 1)),
    lesson("r03_version_cas", Herd, "ABAB", (2, 1, 2)),
    lesson("r03_version_cas", DoubleClick, "AABB", (1, 1, 2)),
    lesson("r04_stock_guard", LastOne, "ABAB", (2, 1, 1)),
    lesson("r04_stock_guard", Herd, "ABAB", (2, 1, 2)),
    lesson("r04_stock_guard", DoubleClick, "ABAB", (1, 1, 2)),
    lesson("r05a_check_then_insert", LastOne, "ABAB", (2, 1, 1)),
    lesson("r05a_check_then_insert", DoubleClick, "ABAB", (1, 1, 2)),
    lesson("r05b_advisory_lock", DoubleClick, "ABAAABB", (1, 1, 2)),
    lesson("r05b_advisory_lock", TwoNodes, "ABAAABB", (1, 2, 2)),
    lesson("r06_global_mutex", DoubleClick, "ABAAABB", (1, 1, 2)),
    lesson("r06_global_mutex", TwoNodes, "ABABABAB", (1, 2, 2)),
    lesson("r07a_user_mutex_inside_tx", EarlyRelease, "ABAABABB", (1, 1, 2)),
    lesson("r07a_user_mutex_inside_tx", TwoNodes, "ABABABAB", (1, 2, 2)),
    lesson("r07b_user_mutex", EarlyRelease, "ABAAABB", (1, 1, 2)),
    lesson("r07b_user_mutex", TwoNodes, "ABABABAB", (1, 2, 2)),
    lesson("r08a_setnx", HolderDies, "ABK", (1, 2, 2)),
    lesson("r08a_setnx", TwoNodes, "ABAAAA", (1, 2, 2)),
    lesson("r08b_setnx_expire", OutlivedLease, "AAALBBBAAABBB", (1, 2, 2)),
    lesson("r08b_setnx_expire", DiesBetween, "ABK", (1, 2, 2)),
    lesson("r09_set_nx_px", OutlivedLease, "AALBBAAABBB", (1, 2, 2)),
    lesson("r10_owner_check", OutlivedLease, "AALBBAABBB", (1, 2, 2)),
    lesson("r11_lua_release", OutlivedLease, "AALBBAAABBB", (1, 2, 2)),
    lesson("r12_reentrant", OutlivedLease, "AALBBAAABBB", (1, 2, 2)),
    lesson("r13a_renewal", TwoNodes, "ABAAAAA", (1, 2, 2)),
    lesson("r13a_renewal", ClockJump, "AALBBBBBBAAAA", (1, 2, 2)),
    lesson("r13b_wakeup", TwoNodes, "ABBAAAAABBB", (1, 2, 2)),
    lesson("r13c_resent_release", TwoNodes, "ABBAAAAABBB", (1, 2, 2)),
    lesson("r13d_redisson_lock", TwoNodes, "ABBAAAAABBB", (1, 2, 2)),
    lesson("r13d_redisson_lock", PausedHolder, "AAALBBBBBBAAA", (1, 2, 2)),
    lesson("r14_multi_lock", ClockJump, "AALBBAAAABBB", (1, 2, 2)),
    lesson("r14_multi_lock", PausedHolder, "AAALLLBBBBBBAAA", (1, 2, 2)),
    lesson("r15_redlock", TwoNodes, "ABBAAAAABBB", (1, 2, 2)),
    lesson("r15_redlock", PausedHolder, "AAALLBBBBBBAAA", (1, 2, 2)),
    lesson("r16_fencing", PausedHolder, "ALBBBBBAA", (1, 2, 2)),
    lesson("r17_zookeeper", TwoNodes, "ABBAAAAABBB", (1, 2, 2)),
    lesson("r18a_constraints", LastOne, "ABA", (2, 2, 1)),
    lesson("r18a_constraints", TwoNodes, "ABA", (1, 2, 2)),
    lesson("r18b_stock_segments", LastOne, "ABA", (2, 2, 1)),
    lesson("r18b_stock_segments", OtherSegment, "ABA", (1, 2, 2)),
    lesson("r18c_all_segments", LastOne, "ABA", (2, 2, 1)),
    lesson("r18c_all_segments", OtherSegment, "ABA", (1, 2, 2)),
    lesson("r19_group_commit", LastOne, "AB", (2, 2, 1)),
    lesson("r19_group_commit", TwoNodes, "AB", (1, 2, 2)),
    lesson("r20_lua_and_queue", FullQueueDies, "AABBK", (2, 2, 2)),
    lesson("r20_lua_and_queue", DiesBeforeWrite, "AABBCK", (2, 2, 2)),
    lesson("r20_lua_and_queue", DiesWithLast, "ABK", (2, 2, 1)),
    lesson("r21a_lua_and_stream", DiesBeforeWrite, "AABBCK", (2, 2, 2)),
    lesson("r21a_lua_and_stream", DiesWithLast, "ABCK", (2, 2, 1)),
    lesson("r21b_stream_from_now", DiesBeforeWrite, "AABBCK", (2, 2, 2)),
    lesson("r21b_stream_from_now", DiesWithLast, "ABCK", (2, 2, 1)),
    lesson("r21c_unchecked_consumer", DiesBeforeWrite, "AABBCK", (2, 2, 2)),
    lesson("r21c_unchecked_consumer", DiesWithLast, "ABCK", (2, 2, 1)),
    lesson("r22_stream_done_right", DiesBeforeWrite, "AABBCK", (2, 2, 2)),
    lesson("r22_stream_done_right", DiesWithLast, "ABCK", (2, 2, 1)),
    lesson("r23a_outbox", DiesBeforeWrite, "AABBCK", (2, 2, 2)),
    lesson("r23b_batched_outbox", LastOne, "ABCCCCCC", (2, 2, 1)),
    lesson("r24_expire_by_timer", LastOne, "ABA", (2, 2, 1)),
    lesson("r24_expire_by_timer", TwoNodes, "ABA", (1, 2, 2)),
    lesson("r25_expire_by_condition", LastOne, "ABA", (2, 2, 1)),
    lesson("r25_expire_by_condition", TwoNodes, "ABA", (1, 2, 2)),
    lesson("r26a_cached_stock", LastOne, "ABABA", (2, 2, 1)),
    lesson("r26a_cached_stock", TwoNodes, "ABABA", (1, 2, 2)),
    lesson("r26b_delayed_double_delete", LastOne, "ABABA", (2, 2, 1)),
    lesson("r26b_delayed_double_delete", TwoNodes, "ABABA", (1, 2, 2)),
    lesson("r26c_sold_out_for_a_second", LastOne, "ABAB", (2, 2, 1)),
    lesson("r26c_sold_out_for_a_second", TwoNodes, "ABA", (1, 2, 2)),
    lesson("r27a_retry", LastOne, "ABA", (2, 2, 1)),
    lesson("r27a_retry", TwoNodes, "ABA", (1, 2, 2)),
    lesson("r27b_request_key", LastOne, "ABA", (2, 2, 1)),
    lesson("r27b_request_key", TwoNodes, "ABA", (1, 2, 2)),
];
