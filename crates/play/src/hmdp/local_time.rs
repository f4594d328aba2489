//! Local times without a zone, as the application has them. They are those of this machine's time zone (`TZ`), which
//! is where Java takes its own from.

use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone, Utc};

/// How a time may be written: as the application's JSON has it, and as its database shows it.
const FORMS: [&str; 3] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M"];

pub(super) fn parse(text: &str) -> Option<NaiveDateTime> {
    FORMS.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
}

/// The instant at which clocks in `zone` show `local`, by the rule of Java: of two instants the earlier one; in the gap
/// of an hour that is left out, as much later as the gap is long.
///
/// It asks for the offsets of instants alone: where an hour comes twice, chrono's `from_local_datetime` takes its first
/// second for the second time.
pub(super) fn instant<Z: TimeZone>(zone: &Z, local: NaiveDateTime) -> Option<DateTime<Utc>> {
    let offset_at = |utc: &NaiveDateTime| zone.offset_from_utc_datetime(utc).fix();
    // No zone is a day away from Universal Time, nor changes twice in two days.
    let before = offset_at(&local.checked_sub_signed(TimeDelta::days(1))?);
    let after = offset_at(&local.checked_add_signed(TimeDelta::days(1))?);
    let instants = [before, after].map(|offset| (offset, local.checked_sub_offset(offset)));
    let shows_local = |offset, utc: &NaiveDateTime| offset_at(utc) == offset;
    let shown =
        instants.iter().find_map(|(offset, utc)| utc.filter(|utc| shows_local(*offset, utc)));
    shown.or(instants[0].1).map(|utc| utc.and_utc())
}

/// What clocks in `zone` show at `at`.
pub(super) fn written<Z: TimeZone>(zone: &Z, at: DateTime<Utc>) -> String {
    at.with_timezone(zone).naive_local().format(FORMS[0]).to_string()
}

#[cfg(test)]
mod tests {
    use chrono::FixedOffset;

    use super::*;

    #[test]
    fn a_local_time_is_read_in_each_of_its_forms_and_nothing_else_is() {
        let Some(zone) = FixedOffset::east_opt(8 * 3600) else { unreachable!("8 hours") };
        let read = |text| parse(text).and_then(|local| instant(&zone, local));
        for text in ["2026-11-25T20:00:00", "2026-11-25T20:00", "2026-11-25 20:00:00"] {
            let at = read(text);
            assert_eq!(at.map(|at| at.timestamp()), Some(1_795_608_000), "{text}");
            let written = at.map(|at| written(&zone, at));
            assert_eq!(written.as_deref(), Some("2026-11-25T20:00:00"));
        }
        let fraction = read("2026-11-25T20:00:00.25").map(|at| written(&zone, at));
        assert_eq!(fraction.as_deref(), Some("2026-11-25T20:00:00.250"));
        for wrong in [
            "",
            "now",
            "2026-02-29T00:00:00",
            "2026-11-25T24:00:00",
            "2026-11-25",
            "2026-11-25T20:00:00Z",
            "2026-11-25T20:00:00+08:00",
            "1795608000",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
