//! Terminals, and what is typed there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tungstenite::Message;

use crate::common::Server;
use crate::socket::{socket, type_in, until};
use crate::{act, idle, server};

#[test]
fn a_terminal_stays_when_the_page_goes() {
    let (server, _folder) = idle();
    let id = server.post("/api/terminals").json()["id"].clone();
    let path = format!("/api/terminals/{id}");
    let mut page = socket(&server, &path);
    page.send(Message::Text(r#"{"cols":97,"rows":31}"#.into())).unwrap();
    page.send(Message::Binary("stty size; echo done-$((1+1))\n".into())).unwrap();
    let seen = until(&mut page, "done-2");
    assert!(seen.contains("31 97"), "{seen}");
    drop(page);
    let mut again = socket(&server, &path);
    until(&mut again, "done-2");
    // A second page sees the same, and what comes.
    let mut second = socket(&server, &path);
    until(&mut second, "done-2");
    again.send(Message::Binary("echo more-$((2+2))\n".into())).unwrap();
    until(&mut again, "more-4");
    until(&mut second, "more-4");
    assert_eq!(server.page("DELETE", &path, "", b"").status, 200);
    assert_eq!(server.get("/api/state").json()["terminals"], json!([]));
}

#[test]
fn ctrl_c_discards_what_was_typed_but_nothing_that_was_printed() {
    let (server, _folder) = idle();
    let id = server.post("/api/terminals").json()["id"].clone();
    let mut page = socket(&server, &format!("/api/terminals/{id}"));
    type_in(&mut page, "sh -c 'echo start-$((0+1)); exec sleep 100'\n");
    until(&mut page, "start-1");
    type_in(&mut page, "exit\n");
    until(&mut page, "exit\r\n");
    type_in(&mut page, "unfinished");
    until(&mut page, "unfinished");
    type_in(&mut page, "\u{3}");
    // No echo shall come between the numbers, and some of them have to wait for a server that is slow.
    type_in(
        &mut page,
        "stty -echo; trap '' INT; sh -c 'echo pid-$$; exec seq 0 20000'; echo over-$((1+1))\n",
    );
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
        let run = act(&server, "/api/run", &json!({ "name": name })).json();
        let mut terminal = socket(&server, &format!("/api/terminals/{}", run["terminal"]));
        let seen = until(&mut terminal, ".\r\n");
        let pid = seen.rsplit_once("pid-").unwrap().1.split_once('.').unwrap().0;
        let stat = format!("/proc/{pid}/stat");
        type_in(&mut terminal, "\u{13}echo");
        match name {
            // It is still there, after the letters that came after Ctrl-S.
            "03" => {
                until(&mut terminal, "echo");
                until(&mut terminal, "line\r\n");
            }
            _ => while !fs::read_to_string(&stat).unwrap().contains(") T ") {},
        }
        server.post(&format!("/api/terminals/{}/interrupt", run["terminal"]));
        until(&mut terminal, "over");
        let is_it = |action: &Value| action["name"] == name;
        assert_eq!(crate::socket::ended(&server, is_it)["status"], 7, "{name}");
    }
}

#[test]
fn what_is_typed_waits_until_the_program_reads_it() {
    let (server, _folder) = server("stty -echo; echo started; read go < go; wc -c; echo over-$((1+1))");
    nix::unistd::mkfifo(&server.mine().join("go"), nix::sys::stat::Mode::S_IRWXU).unwrap_or_default();
    let run = act(&server, "/api/run", &json!({ "name": "03" })).json();
    let mut terminal = socket(&server, &format!("/api/terminals/{}", run["terminal"]));
    until(&mut terminal, "started");
    // As the page sends a long text: in pieces. All of it is more than what any buffer on the way holds.
    let (piece, count) = (("x".repeat(63) + "\r").repeat(1024), 128);
    let typist = terminal.get_ref().try_clone().unwrap();
    let sender = std::thread::spawn({
        let piece = piece.clone();
        move || {
            let mut socket =
                tungstenite::WebSocket::from_raw_socket(typist, tungstenite::protocol::Role::Client, None);
            for _ in 0..count {
                socket.send(Message::Binary(piece.clone().into_bytes().into())).unwrap();
            }
            socket.send(Message::Binary("\u{4}".into())).unwrap();
        }
    });
    fs::write(server.mine().join("go"), "").unwrap();
    let seen = until(&mut terminal, "over-2");
    sender.join().unwrap();
    assert!(seen.contains(&(piece.len() * count).to_string()), "{seen}");
}

#[test]
fn from_five_terminals_on_an_ended_one_makes_room() {
    let (server, _folder) = idle();
    let numbers = |server: &Server| -> Vec<u64> {
        let state = server.get("/api/state").json();
        state["terminals"].as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap()).collect()
    };
    for _ in 0..5 {
        server.post("/api/terminals");
    }
    server.post("/api/terminals");
    assert_eq!(numbers(&server), [1, 2, 3, 4, 5, 6]);
    let mut third = socket(&server, "/api/terminals/3");
    type_in(&mut third, "exit 7\n");
    while server.get("/api/state").json()["terminals"][2]["status"] != 7 {}
    server.post("/api/terminals");
    assert_eq!(numbers(&server), [1, 2, 4, 5, 6, 7]);
}

#[test]
fn there_are_at_most_eight_terminals() {
    let (server, _folder) = idle();
    for _ in 0..8 {
        server.post("/api/terminals");
    }
    let refused = server.page("POST", "/api/terminals", "", b"");
    assert_eq!(
        (refused.status, refused.json()["cause"].clone()),
        (429, json!("there are 8 terminals already"))
    );
    assert_eq!(server.page("DELETE", "/api/terminals/3", "", b"").status, 200);
    server.post("/api/terminals");
}

#[test]
fn a_program_that_reads_nothing_does_not_hold_up_its_output() {
    let (server, _folder) =
        server("trap 'echo ended; exit 0' INT; echo started; while :; do sleep 0.1; done");
    let run = act(&server, "/api/run", &json!({ "name": "03" })).json();
    let mut terminal = socket(&server, &format!("/api/terminals/{}", run["terminal"]));
    until(&mut terminal, "started");
    for _ in 0..200 {
        terminal.send(Message::Binary(vec![b'x'; 4096].into())).unwrap();
    }
    server.post(&format!("/api/terminals/{}/interrupt", run["terminal"]));
    until(&mut terminal, "ended");
}

#[test]
fn nothing_is_left_when_it_ends() {
    let (mut server, _folder) = server("echo \"pid $$.\"; exec sleep 1000");
    let run = act(&server, "/api/run", &json!({ "name": "03" })).json();
    let mut terminal = socket(&server, &format!("/api/terminals/{}", run["terminal"]));
    let seen = until(&mut terminal, ".\r\n");
    let (_, rest) = seen.split_once("pid ").unwrap();
    let process = format!("/proc/{}", rest.split_once('.').unwrap().0);
    assert!(Path::new(&process).exists());
    assert!(server.end(Signal::SIGINT).success());
    assert!(!Path::new(&process).exists());
}
