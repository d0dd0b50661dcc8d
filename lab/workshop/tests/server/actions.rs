//! What runs: the driver's commands and compilations.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common;
use crate::socket::{socket, until, until_it};
use crate::{act, ended, server};

#[test]
fn actions_are_the_drivers_commands() {
    let (server, _folder) = server(
        "printf '\\033[1merror\\033[0m[E0308]: mismatched types\\n  \\033[34m-->\\033[0m 03.2/src/main.rs:23:18\\n'
         echo \"Error: the kernel's verifier refused a BPF program: it may be NULL\"
         printf '  evidence: in entry, a.bpf.c line 46:\\n  fix:      test it:\\n                if (!it)\\n'
         echo \"driver: $@ in $(basename \"$PWD\")\"; echo 'Error: it is not right'; exit 3",
    );
    assert_eq!(act(&server, "/api/check", &json!({ "name": "03.2" })).status, 404, "it is not started");
    server.post("/api/works/03.2/start");
    assert_eq!(act(&server, "/api/check", &json!({ "name": "03.2" })).status, 200);
    let action = ended(&server);
    assert_eq!((&action["status"], &action["cause"]), (&json!(3), &json!("it is not right")));
    assert_eq!(
        action["diagnostics"],
        json!([
            { "path": "src/main.rs", "line": 23, "column": 18, "severity": "error", "message": "mismatched types" },
            { "path": "src/bpf/a.bpf.c", "line": 46, "column": null, "severity": "error",
              "message": "the verifier refuses this: it may be NULL\ntest it:\n    if (!it)" },
        ])
    );
    let mut terminal = socket(&server, &format!("/api/terminals/{}", action["terminal"]));
    let seen = until(&mut terminal, "driver: exercise check 03.2 --verdict /");
    // The file for the verdict is our own affair.
    let plain = seen.replace("\u{1b}[0m", "");
    assert!(plain.contains("$ cargo lab exercise check 03.2\r\n"), "{seen}");
    assert_eq!(action["verdict"], Value::Null);
}

#[test]
fn a_check_writes_its_verdict() {
    let fault = json!({ "expected": "8 lines", "seen": "one", "lines": ["io-7: a"], "before": 0, "printed": 1, "wrong": 0 });
    let right = json!({ "right": "8 lines" });
    for (status, verdict) in [(1, json!({ "wrong": fault })), (0, right)] {
        let (server, _folder) = server(&format!("echo '{verdict}' > \"$5\"; exit {status}"));
        server.post("/api/works/03.2/start");
        act(&server, "/api/check", &json!({ "name": "03.2" }));
        let action = ended(&server);
        assert_eq!((&action["status"], &action["verdict"]), (&json!(status), &verdict));
    }
}

#[test]
fn a_newer_compilation_or_a_check_ends_the_one_before() {
    let (server, _folder) = server(
        "[ \"$2\" = compile ] || exit 0; [ -e quick ]; slow=$?; echo $$ > started
         [ $slow = 0 ] || exec sleep 1000
         echo 'Error: it does not compile' >&2
         echo '  evidence: /w/03.2/src/bpf/a.bpf.c:7:2: error: no such thing' >&2; exit 1",
    );
    server.post("/api/works/03.2/start");
    let started = server.mine().join("started");
    nix::unistd::mkfifo(&started, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let compile = || {
        let (port, head) = (server.port(), server.page_head("POST", "/api/works/03.2/compile"));
        let answer = std::thread::spawn(move || common::send(port, &head, b"").json());
        let pid = fs::read_to_string(&started).unwrap();
        (answer, Path::new("/proc").join(pid.trim()))
    };
    let (first, process) = compile();
    fs::write(server.mine().join("quick"), "").unwrap();
    let (second, _) = compile();
    assert_eq!(first.join().unwrap(), json!({ "compiled": null }));
    assert_eq!(
        second.join().unwrap()["compiled"],
        json!({ "compiles": false, "diagnostics": [
            { "path": "src/bpf/a.bpf.c", "line": 7, "column": 2, "severity": "error", "message": "no such thing" },
        ] })
    );
    while process.exists() {}
    fs::remove_file(server.mine().join("quick")).unwrap();
    let (third, process) = compile();
    act(&server, "/api/check", &json!({ "name": "03.2" }));
    assert_eq!(third.join().unwrap(), json!({ "compiled": null }));
    while process.exists() {}
}

#[test]
fn a_run_answers_the_prediction_made_before_it() {
    // Two rounds of `io`: the second one shows that the first is over.
    let line = |pid: u32| format!("io-{pid} [000] ...21 2.310423: submit_bio() called: {pid}");
    let lines: Vec<_> = [(8, 8), (9, 1)].iter().flat_map(|(pid, all)| vec![line(*pid); *all]).collect();
    let (server, _folder) = server(&format!("printf '{}\\n'; exec sleep 1000", lines.join("\\n")));
    let question = |id: &str| {
        let state = server.state();
        let all = state["questions"].as_array().unwrap();
        all.iter().find(|question| question["id"] == id).unwrap_or_else(|| panic!("{all:?}")).clone()
    };
    let open = json!({ "id": "01/lines", "program": "01", "arguments": "", "tries": null });
    assert_eq!(question("01/lines"), open);
    assert_eq!(question("05/sector")["arguments"], "--io \"write --count 1 --seek 100 /dev/part\"");
    assert_eq!(question("01/order")["arguments"], Value::Null);
    let put = |id: &str, tries: u32| {
        server.send("PUT", &format!("/api/answers/{id}"), &json!({ "tries": tries })).status
    };
    assert_eq!([put("01/lines", 0), put("01/order", 3), put("01/nothing", 1)], [200, 200, 404]);
    assert_eq!([&question("01/lines")["tries"], &question("01/order")["tries"]], [0, 3]);

    let run = |answer: &str| {
        let prediction = json!({ "id": "01/lines", "answer": answer });
        act(&server, "/api/run", &json!({ "name": "01", "prediction": prediction }))
    };
    assert_eq!(run("many").status, 422);
    let first = run("16").json();
    assert_eq!(first["outcome"]["seen"], Value::Null);
    let mut terminal = socket(&server, &format!("/api/terminals/{}", first["terminal"]));
    until(&mut terminal, &line(9));
    // The run goes on, and its answer is there.
    let outcome = server.state()["actions"][0]["outcome"].clone();
    let seen = json!({ "value": "8", "lines": vec![line(8); 8] });
    assert_eq!(
        [&outcome["predicted"], &outcome["seen"], &outcome["is_right"], &outcome["right"]],
        [&json!("16"), &seen, &json!(false), &json!("8")]
    );
    assert!(outcome["why"].as_str().unwrap().starts_with("That counts each block twice"), "{outcome}");
    assert_eq!(question("01/lines")["tries"], 2);
    run("8");
    assert_eq!(question("01/lines")["tries"], 1);
    let answers = fs::read_to_string(server.mine().join("answers.txt")).unwrap();
    assert_eq!(answers, "01/lines 1\n01/order 3\n");
}

#[test]
fn an_action_runs_as_soon_as_its_kernel_is_named() {
    let (server, _folder) = server("shift 2; echo \"$@\"; echo shown; exec sleep 1000");
    for (line, phase) in [
        ("Booting Linux 6.12.1 ...", "booting"),
        ("Kernel 6.12.1 without KVM, up after 3.0 s", "running"),
        ("Kernel 6.12.1, this guest's own", "running"),
        ("Kernel 6.12.1 is old", "compiling"),
    ] {
        let arguments = format!("\"{line}\"");
        let action = act(&server, "/api/run", &json!({ "name": "03", "arguments": arguments })).json();
        let mut terminal = socket(&server, &format!("/api/terminals/{}", action["terminal"]));
        until(&mut terminal, &format!("{line}\r\nshown"));
        assert_eq!(server.state()["actions"][0]["phase"], phase, "{line}");
        server.post(&format!("/api/terminals/{}/interrupt", action["terminal"]));
        ended(&server);
    }
}

#[test]
fn a_second_run_ends_the_first_and_takes_its_terminal() {
    let (server, _folder) = server(
        "echo $$ >> pids; trap 'echo ended; exit 0' INT; echo \"started: $@\"; while :; do sleep 0.1; done",
    );
    let run = json!({ "name": "03", "arguments": "--io 'write --count 4' -- --lines 9" });
    let first = act(&server, "/api/run", &run).json();
    let mut terminal = socket(&server, &format!("/api/terminals/{}", first["terminal"]));
    let seen = until(&mut terminal, "started: run 03 --io write --count 4 -- --lines 9");
    assert!(seen.contains("$ cargo lab run 03 --io 'write --count 4' -- --lines 9"), "{seen}");
    // Two clicks at once are one run after the other.
    let both = [0; 2].map(|_| {
        let (port, head, body) = (server.port(), server.page_head("POST", "/api/run"), run.to_string());
        std::thread::spawn(move || common::send(port, &head, body.as_bytes()))
    });
    let both = both.map(|click| click.join().unwrap());
    let is_there = |run: &common::Response| run.status == 200 && run.json()["terminal"] == first["terminal"];
    assert!(both.iter().all(is_there), "{both:?}");
    let is_last = |seen: &str| {
        let runs: Vec<_> = seen.split("$ cargo lab run").collect();
        runs.len() == 3 && runs[2].contains("started: ")
    };
    let seen = until_it(&mut terminal, is_last);
    assert!(seen.starts_with("ended") || seen.starts_with("^Cended"), "{seen}");
    assert_eq!(server.state()["actions"].as_array().unwrap().len(), 1);
    // Stop.
    server.post(&format!("/api/terminals/{}/interrupt", first["terminal"]));
    assert_eq!(ended(&server)["status"], 0);
    let pids = fs::read_to_string(server.mine().join("pids")).unwrap();
    assert!(pids.lines().all(|pid| !Path::new("/proc").join(pid).exists()), "{pids}");
}
