//! The start of a workshop, its end, and the next one.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::common::Server;
use crate::socket::{socket, until};
use crate::{act, idle, server};

#[test]
fn only_one_workshop_runs_and_the_next_one_continues() {
    let (mut server, folder) = idle();
    let first = server.url.clone();
    let mine = server.mine();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
        command
            .arg("--driver")
            .arg(folder.path().join("driver"))
            .arg("--book")
            .arg(folder.path().join("book"));
        command.arg("--no-browser").args(arguments).env("LAB_MINE", &mine).output().unwrap()
    };
    let second = start(&[]);
    assert!(second.status.success());
    assert_eq!(
        String::from_utf8_lossy(&second.stdout),
        format!("The workshop is running already: {first}\n")
    );
    let (other, _other_folder) = idle();
    let port = other.port().to_string();
    assert!(server.end(Signal::SIGTERM).success());
    let taken = start(&["--port", &port]);
    assert!(!taken.status.success());
    insta::assert_snapshot!(String::from_utf8_lossy(&taken.stderr).replace(&port, "PORT"));
    let blocked = start(&["--port", "6000"]);
    insta::assert_snapshot!(String::from_utf8_lossy(&blocked.stderr));
    // After a start on no port, the next one takes the first port.
    server.again();
    assert_eq!(server.origin(), first.split_once("/#").unwrap().0);
    assert_eq!(fs::metadata(mine.join("workshop.json")).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A program that does not end when it is asked to keeps the server, which answers nobody. The next one waits for it.
#[test]
fn the_next_one_waits_for_one_that_is_ending() {
    let (mut first, _folder) =
        server("trap 'echo asked' HUP; echo started; until [ -e go ]; do sleep 0.1; done");
    let run = act(&first, "/api/run", &json!({ "name": "03" })).json();
    let mut terminal = socket(&first, &format!("/api/terminals/{}", run["terminal"]));
    until(&mut terminal, "started");
    first.signal(Signal::SIGTERM);
    until(&mut terminal, "asked");
    let mut second = Command::new(env!("CARGO_BIN_EXE_workshop"));
    second.args(["--driver", "/bin/false", "--book", "/", "--no-browser"]).env("LAB_MINE", first.mine());
    let mut second = second.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut words = BufReader::new(second.stderr.take().unwrap()).lines();
    let waits = "Waiting for the workshop before, whose programs have yet to end ...";
    assert_eq!(words.next().unwrap().unwrap(), waits);
    fs::write(first.mine().join("go"), "").unwrap();
    assert!(first.wait().success());
    let said = BufReader::new(second.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(said.starts_with("The workshop: http://127.0.0.1:"), "{said}");
    second.kill().unwrap();
    second.wait().unwrap();
}

/// The file that leads a browser there: other users can see the arguments of a program.
#[test]
fn a_browser_gets_a_private_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mine, opened) = (folder.path().join("mine"), folder.path().join("opened"));
    fs::create_dir(&mine).unwrap();
    // Another file was there before, and something leads to a file of somebody's.
    let (file, other) = (mine.join("open-workshop.html"), folder.path().join("other"));
    fs::write(&other, "theirs").unwrap();
    std::os::unix::fs::symlink(&other, &file).unwrap();
    nix::unistd::mkfifo(&opened, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let browser = folder.path().join("xdg-open");
    let script =
        format!("printf '#!/bin/sh\\necho \"$1\" > {}\\n' > \"$1\" && chmod 755 \"$1\"", opened.display());
    assert!(Command::new("sh").args(["-c", &script, "sh"]).arg(&browser).status().unwrap().success());
    let mut server = Command::new(env!("CARGO_BIN_EXE_workshop"));
    server.args(["--driver", "/bin/false", "--book", "/"]).env("LAB_MINE", &mine);
    server.env("PATH", format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap()));
    let mut server = server.stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(fs::read_to_string(&opened).unwrap().trim_end(), file.to_str().unwrap());
    assert_eq!(fs::symlink_metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&file).unwrap().contains("url=http://127.0.0.1:"));
    assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn it_announces_its_address() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let status = folder.path().join("status");
    fs::write(&status, "ready 6.12\n").unwrap();
    let mut server = Server::with({
        let status = status.clone();
        move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
            command.args(["--driver", "/bin/false", "--book", "/", "--announce"]).arg(&status);
            command
        }
    });
    // The end comes after the announcement.
    server.end(Signal::SIGTERM);
    let url = &server.url;
    assert_eq!(fs::read_to_string(&status).unwrap(), format!("ready 6.12\nurl {url}\n"));
}

#[test]
fn it_ends_for_another_kernel() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let status = folder.path().join("status");
    let mut server = Server::with_kernels(&status);
    let boot = |server: &Server, kernel: &str| {
        server.page("POST", "/api/kernel", "", json!({ "kernel": kernel }).to_string().as_bytes())
    };
    let refused = boot(&server, "5.10");
    assert_eq!(
        (refused.status, &refused.json()["evidence"]),
        (404, &json!("the kernels to choose from: 6.12, 7.2"))
    );
    let kernel = |server: &Server| server.get("/api/state").json()["kernel"].clone();
    assert_eq!(kernel(&server), "6.12");
    let url = server.url.clone();
    server.boot("7.2");
    assert!(fs::read_to_string(&status).unwrap().ends_with("\nnext 7.2\n"));
    // The page has the same address.
    server.again();
    assert_eq!((kernel(&server), &server.url), (json!("7.2"), &url));
    let (plain, _folder) = idle();
    assert_eq!((boot(&plain, "7.2").status, kernel(&plain)), (404, Value::Null));
}

#[test]
fn the_pages_scripts_are_built() {
    use sha2::{Digest, Sha256};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let sources: BTreeSet<_> = names
        .filter(|name| name.ends_with(".ts") || name == "page.css" || name == "package-lock.json")
        .chain(["../../../docs/present/questions.ts".to_owned()])
        .collect();
    let hash = sources
        .iter()
        .fold(Sha256::new(), |hash, name| hash.chain_update(fs::read(folder.join(name)).unwrap()));
    let hash: String = hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    for built in ["workshop.js", "workshop.css", "frame.js"] {
        let text = fs::read_to_string(folder.join(built)).unwrap();
        let first = text.lines().next().unwrap();
        assert!(
            first.contains(&hash),
            "{built} is older than its sources ({hash}): {first}\n  fix: make page"
        );
    }
}
