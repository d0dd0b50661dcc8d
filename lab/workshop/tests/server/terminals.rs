//! Terminals, and what is typed there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tungstenite::Message;

use crate::common::Server;
use crate::socket::{socket, type_in, until};
use crate::{idle, run, server, shell};

#[test]
fn a_terminal_stays_when_the_page_goes() {
    let (server, _folder) = idle();
    let (path, mut page) = shell(&server);
    page.send(Message::Text(r#"{"cols":97,"rows":31}"#.into())).unwrap();
    type_in(&mut page, "stty size; echo done-$((1+1))\n");
    let seen = until(&mut page, "done-2");
    assert!(seen.contains("31 97"), "{seen}");
    drop(page);
    // A second page sees the same, and what comes.
    let mut pages = [socket(&server, &path), socket(&server, &path)];
    pages.iter_mut().for_each(|page| drop(until(page, "done-2")));
    type_in(&mut pages[0], "echo more-$((2+2))\n");
    pages.iter_mut().for_each(|page| drop(until(page, "more-4")));
    assert_eq!(server.page("DELETE", &path, "", b"").status, 200);
    assert_eq!(server.state()["terminals"], json!([]));
}

#[test]
fn ctrl_c_discards_what_was_typed_but_nothing_that_was_printed() {
    let (server, _folder) = idle();
    let (_, mut page) = shell(&server);
    type_in(&mut page, "sh -c 'echo start-$((0+1)); exec sleep 100'\n");
    until(&mut page, "start-1");
    type_in(&mut page, "exit\n");
    until(&mut page, "exit\r\n");
    type_in(&mut page, "unfinished");
    until(&mut page, "unfinished");
    type_in(&mut page, "\u{3}");
    // No echo shall come between the numbers, and some of them have to wait for a server that is slow.
    let numbers = "sh -c 'echo pid-$$; exec seq 0 20000'";
    type_in(&mut page, &format!("stty -echo; trap '' INT; {numbers}; echo over-$((1+1))\n"));
    let mut seen = until(&mut page, "\n1\r\n");
    let pid = seen.rsplit_once("pid-").unwrap().1.lines().next().unwrap();
    let stat = format!("/proc/{pid}/stat");
    for _ in 0..5 {
        server.signal(Signal::SIGSTOP);
        // Until it has filled the terminal, or written all.
        while fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") R ")) {}
        type_in(&mut page, "\u{3}");
        server.signal(Signal::SIGCONT);
    }
    seen += &until(&mut page, "over-2");
    let lines: BTreeSet<_> = seen.lines().collect();
    let lost: Vec<_> = (1..=20000).filter(|number| !lines.contains(&*number.to_string())).collect();
    assert!(lost.is_empty(), "{} lines are lost, the first of them {}", lost.len(), lost[0]);
}

#[test]
fn neither_ctrl_s_nor_a_stopped_program_outlasts_stop() {
    let (server, _folder) = server(
        "trap 'echo over; exit 7' INT; echo pid-$$.; [ \"$2\" = 01 ] && kill -STOP $$; while :; do echo line; sleep 0.01; done",
    );
    for name in ["03", "01"] {
        let (path, mut terminal) = run(&server, name);
        let seen = until(&mut terminal, ".\r\n");
        let pid = seen.rsplit_once("pid-").unwrap().1.split_once('.').unwrap().0;
        let stat = format!("/proc/{pid}/stat");
        type_in(&mut terminal, "\u{13}echo");
        match name {
            // It is still there, after the letters that came after Ctrl-S.
            "03" => ["echo", "line\r\n"].iter().for_each(|text| drop(until(&mut terminal, text))),
            _ => while !fs::read_to_string(&stat).unwrap().contains(") T ") {},
        }
        server.post(&format!("{path}/interrupt"));
        until(&mut terminal, "over");
        let is_it = |action: &Value| action["name"] == name;
        assert_eq!(crate::socket::ended(&server, is_it)["status"], 7, "{name}");
    }
}

#[test]
fn what_is_typed_waits_until_the_program_reads_it() {
    let (server, _folder) = server("stty -echo; echo started; read go < go; wc -c; echo over-$((1+1))");
    nix::unistd::mkfifo(&server.mine().join("go"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (path, mut terminal) = run(&server, "03");
    until(&mut terminal, "started");
    // As the page sends a long text: in pieces. All of it is more than what any buffer on the way holds.
    let piece = ("x".repeat(63) + "\r").repeat(1024);
    let (length, count) = (piece.len(), 128);
    let mut typist = socket(&server, &path);
    let sender = std::thread::spawn(move || {
        (0..count).for_each(|_| type_in(&mut typist, &piece));
        type_in(&mut typist, "\u{4}");
        typist
    });
    fs::write(server.mine().join("go"), "").unwrap();
    let seen = until(&mut terminal, "over-2");
    drop(sender.join().unwrap());
    assert!(seen.contains(&(length * count).to_string()), "{seen}");
}

#[test]
fn there_are_at_most_eight_terminals_and_from_five_on_an_ended_one_makes_room() {
    let (server, _folder) = idle();
    let numbers = |server: &Server| -> Vec<u64> {
        let state = server.state();
        state["terminals"].as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap()).collect()
    };
    for _ in 0..6 {
        server.post("/api/terminals");
    }
    assert_eq!(numbers(&server), [1, 2, 3, 4, 5, 6]);
    type_in(&mut socket(&server, "/api/terminals/3"), "exit 7\n");
    while server.state()["terminals"][2]["status"] != 7 {}
    server.post("/api/terminals");
    assert_eq!(numbers(&server), [1, 2, 4, 5, 6, 7]);
    for _ in 0..2 {
        server.post("/api/terminals");
    }
    server.page("POST", "/api/terminals", "", b"").is_refused(429, "there are 8 terminals already");
    assert_eq!(server.page("DELETE", "/api/terminals/2", "", b"").status, 200);
    server.post("/api/terminals");
    assert_eq!(numbers(&server), [1, 4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn a_program_that_reads_nothing_does_not_hold_up_its_output() {
    let (server, _folder) =
        server("trap 'echo ended; exit 0' INT; echo started; while :; do sleep 0.1; done");
    let (path, mut terminal) = run(&server, "03");
    until(&mut terminal, "started");
    (0..200).for_each(|_| type_in(&mut terminal, &"x".repeat(4096)));
    server.post(&format!("{path}/interrupt"));
    until(&mut terminal, "ended");
}

#[test]
fn nothing_is_left_when_it_ends() {
    let (mut server, _folder) = server("echo \"pid $$.\"; exec sleep 1000");
    let (_, mut terminal) = run(&server, "03");
    let seen = until(&mut terminal, ".\r\n");
    let (_, rest) = seen.split_once("pid ").unwrap();
    let process = format!("/proc/{}", rest.split_once('.').unwrap().0);
    assert!(Path::new(&process).exists());
    assert!(server.end(Signal::SIGINT).success());
    assert!(!Path::new(&process).exists());
}
