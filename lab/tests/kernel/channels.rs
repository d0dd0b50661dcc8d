//! What the book claims about events that nobody reads in time.

use std::collections::HashMap;

use upkeep::publish::channels::SENT;

use crate::guest::sh;
use crate::{Case, cases};

pub const CASES: &[Case] = cases![channels_lose_what_the_book_claims];

fn channels_lose_what_the_book_claims() {
    const LAST: i64 = SENT as i64 - 1;
    // On one CPU, because some channels have a buffer for each CPU.
    let told = sh("taskset 1 channels loss");
    let numbers = |line: &str| -> [i64; 7] {
        let numbers: Vec<_> = line.split('\t').skip(1).map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    };
    let told: HashMap<_, _> =
        told.lines().map(|line| (line.split('\t').next().unwrap(), numbers(line))).collect();

    // How many fit into the trace pipe depends on the number of digits in a time.
    let [kept, first, last, _, refused, error, lost] = told["trace pipe"];
    assert!(kept > 1000 && kept + lost == SENT as i64, "{told:?}");
    assert_eq!((first, last, refused, error), (lost, LAST, 0, 0));

    // kept, first, last, count, refused, error, lost
    assert_eq!(told["perf buffer"], [1365, 0, 1364, 0, 2731, -28, 2731]);
    assert_eq!(told["ring buffer"], [1638, 0, 1637, 0, 2458, -1, 0]);
    assert_eq!(told["ring buffer, nobody woken"], [1638, 0, 1637, 0, 2458, -11, 0]);
    assert_eq!(told["hash map"], [1024, 0, 1023, 0, 3072, -7, 0]);
    assert_eq!(told["counter"], [0, 0, 0, SENT as i64, 0, 0, 0]);
}
