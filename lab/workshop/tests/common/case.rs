//! A mystery's case, as a guest has one, with which a test plays.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread;

use serde_json::{Value, json};
use wire::play::{Move, Part, Played, Said};

use crate::common::{Response, Server};
use crate::socket::{socket, until};

/// A driver that ends with its case.
pub const DRIVER: &str = "for door; do :; done; door=${door#*=}
    until [ -e $door ]; do sleep 0.1; done; while [ -e $door ]; do sleep 0.1; done";

/// Starts case 01 with a driver that prints its arguments, and answers in place of the guest, until the case ends.
pub fn play(server: &Server, seed: u64) {
    let start = server.send("POST", "/api/mysteries/1/start", &json!({ "seed": seed }));
    assert_eq!(start.status, 200, "{start:?}");
    let mut terminal = socket(server, &format!("/api/terminals/{}", start.json()["terminal"]));
    let seen = until(&mut terminal, "/door\r\n");
    let (shown, door) = seen.rsplit_once(&format!("\nmystery start 01 --seed {seed} --door=")).unwrap();
    // The door is our own affair.
    assert!(shown.contains(&format!("$ cargo lab mystery start 01 --seed {seed}\u{1b}")), "{seen}");
    let door = PathBuf::from(door.trim_end());
    let listener = UnixListener::bind(&door).unwrap();
    thread::spawn(move || {
        serve(&listener, seed);
        fs::remove_file(door).unwrap();
    });
}

fn serve(listener: &UnixListener, seed: u64) {
    let mut played = Played {
        number: "01".to_owned(),
        seed,
        complaint: "It is slow.".to_owned(),
        seconds: 61,
        limit: 600,
        clock: "1:01 of 10:00.".to_owned(),
        all_hints: 3,
        ..Played::default()
    };
    for mut stream in listener.incoming().flatten() {
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        let step = serde_json::from_str(&line).unwrap();
        for said in answer(&step, &mut played) {
            // Who asks for the state does not wait for long.
            let _ = writeln!(stream, "{}", json!(said));
        }
        if matches!(step, Move::End) {
            return;
        }
    }
}

fn answer(step: &Move, played: &mut Played) -> Vec<Said> {
    match step {
        Move::Status => {
            // Each time, it is later.
            played.seconds += 1;
            vec![Said::Played(Box::new(played.clone()))]
        }
        Move::Note { words } => {
            played.notes.push(format!("{} {}", played.clock, words.join(" ")));
            vec![Said::Lines(played.notes.concat())]
        }
        Move::Answer { cause, .. } => {
            let is_right = cause.as_deref() == Some("slow-disk");
            played.is_solved |= is_right;
            played.is_open |= is_right;
            let part = |name: &str| Part { name: name.to_owned(), is_right, verdict: String::new() };
            vec![Said::Graded(vec![part("cause"), part("place")]), Said::Text("Compare.".to_owned())]
        }
        Move::Solution { peek: false } => vec![Said::Error(common::Error::new("no answer was right yet"))],
        _ => vec![Said::Text("80 ms".to_owned())],
    }
}

/// Makes a move as the page does.
pub fn make(server: &Server, step: &Value) -> Response {
    server.send("POST", "/api/mystery", step)
}

/// Case 01 as the page lists it.
pub fn listed(server: &Server) -> Value {
    server.state()["mysteries"][0].clone()
}
