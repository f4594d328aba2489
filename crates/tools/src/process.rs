//! Processor time, by process.

/// Ticks of `/proc/*/stat`, in microseconds: on Linux the same wherever it runs (`proc(5)`).
pub(crate) const TICK_US: f64 = 10_000.0;

/// A process, as `/proc` tells of it.
pub(crate) struct Process {
    /// Of its program.
    pub(crate) name: String,
    /// The process that it belongs to.
    pub(crate) parent: u32,
    /// Processor time of its threads.
    pub(crate) own_us: f64,
    /// Processor time of the children that it has waited for.
    pub(crate) ended_us: f64,
}

impl Process {
    /// `None` where there is no such process, or the system does not tell.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold anything; the state follows it.
        let (before, after) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let us = |at: usize| Some(fields.get(at)?.parse::<f64>().ok()? * TICK_US);
        Some(Self {
            name: before.split_once('(')?.1.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            own_us: us(11)? + us(12)?,
            ended_us: us(13)? + us(14)?,
        })
    }
}
