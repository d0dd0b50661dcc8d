//! The life of the I/O with which the deck begins: the one of stage 11's recorded output that took longest.

use std::fs;

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;

/// What the slides say of it, by the names in braces.
pub fn words(workbook: &Workbook) -> Result<Vec<(&'static str, String)>> {
    let file = workbook.catalog.stage("11")?.folder.join("output.txt");
    let output = fs::read_to_string(&file).or_cause(format!("cannot read {}", file.display()))?;
    of(&output).ok_or_else(|| {
        Error::new(format!("{} has no I/O", file.display())).evidence(output).fix("cargo upkeep record 11")
    })
}

fn of(output: &str) -> Option<Vec<(&'static str, String)>> {
    let parse = |line: &str| {
        let numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        <[u64; 7]>::try_from(numbers.collect::<Vec<_>>()).ok()
    };
    let [_sector, _bytes, total, parts @ ..] = output.lines().filter_map(parse).max_by_key(|io| io[2])?;
    let took = ("{took}", format!("{:.1} ms", total as f64 / 1e3));
    let parts =
        ["{before}", "{queue}", "{disk}", "{end}"].into_iter().zip(parts.map(|us| format!("{us} µs")));
    Some([took].into_iter().chain(parts).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_io_is_told() {
        let output = "TASK   SECTOR BYTES TOTAL BEFORE QUEUE DISK END\n\
                      io 15972 4096 1724 770 270 534 150\nio 15988 4096 3684 24 12 3640 8\n\
                      Durations missing or too short: 0\n";
        let words = of(output).unwrap().into_iter().map(|(name, word)| name.to_owned() + &word);
        assert_eq!(
            words.collect::<Vec<_>>(),
            ["{took}3.7 ms", "{before}24 µs", "{queue}12 µs", "{disk}3640 µs", "{end}8 µs"]
        );
        assert_eq!(of("TASK\n"), None);
    }
}
