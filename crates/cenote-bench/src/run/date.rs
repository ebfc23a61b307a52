//! A day of the calendar from a count of days.

/// The day so many days after 1 January 1970, as `2026-03-01`.
pub fn of_days(days: u64) -> String {
    // Years begin in March, so that the day that some years have comes last; 719,468 days lie between 1 March of the
    // year 0 and 1970.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::of_days;

    #[test]
    fn days_of_the_calendar() {
        for (days, date) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (19_722, "2023-12-31"),
            (20_513, "2026-03-01"),
        ] {
            assert_eq!(of_days(days), date);
        }
    }
}
