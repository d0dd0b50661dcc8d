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
use crate::socket::until;
use crate::{act, idle, run, script, server};

/// A workshop that nobody looks at, for this working folder.
fn workshop(mine: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
    command.args(["--driver", "/bin/false", "--book", "/"]).args(arguments).env("LAB_MINE", mine);
    command
}

#[test]
fn only_one_workshop_runs_and_the_next_one_continues() {
    let (mut server, _folder) = idle();
    let (first, origin, mine) = (server.url.clone(), server.origin(), server.mine());
    let second = workshop(&mine, &["--no-browser"]).output().unwrap();
    let said = String::from_utf8_lossy(&second.stdout);
    assert_eq!(
        (second.status.success(), &*said),
        (true, &*format!("The workshop is running already: {first}\n"))
    );
    let (other, _other_folder) = idle();
    let port = other.port().to_string();
    assert!(server.end(Signal::SIGTERM).success());
    let taken = workshop(&mine, &["--no-browser", "--port", &port]).output().unwrap();
    assert!(!taken.status.success());
    insta::assert_snapshot!(String::from_utf8_lossy(&taken.stderr).replace(&port, "PORT"));
    let blocked = workshop(&mine, &["--no-browser", "--port", "6000"]).output().unwrap();
    insta::assert_snapshot!(String::from_utf8_lossy(&blocked.stderr));
    // After a start on no port, the next one takes the first port.
    server.again();
    assert_eq!(server.origin(), origin);
    assert_eq!(fs::metadata(mine.join("workshop.json")).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A program that does not end when it is asked to keeps the server, which answers nobody. The next one waits for it.
#[test]
fn the_next_one_waits_for_one_that_is_ending() {
    let (mut first, _folder) =
        server("trap 'echo asked' HUP; echo started; until [ -e go ]; do sleep 0.1; done");
    let (_, mut terminal) = run(&first, "03");
    until(&mut terminal, "started");
    first.signal(Signal::SIGTERM);
    until(&mut terminal, "asked");
    let mut second = workshop(&first.mine(), &["--no-browser"]);
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
    let [mine, opened, other] = ["mine", "opened", "other"].map(|name| folder.path().join(name));
    fs::create_dir(&mine).unwrap();
    // Another file was there before, and something leads to a file of somebody's.
    let file = mine.join("open-workshop.html");
    fs::write(&other, "theirs").unwrap();
    std::os::unix::fs::symlink(&other, &file).unwrap();
    nix::unistd::mkfifo(&opened, nix::sys::stat::Mode::S_IRWXU).unwrap();
    script(&folder.path().join("xdg-open"), &format!("echo \"$1\" > {}", opened.display()));
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut server = workshop(&mine, &[]).env("PATH", path).stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(fs::read_to_string(&opened).unwrap().trim_end(), file.to_str().unwrap());
    assert_eq!(fs::symlink_metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&file).unwrap().contains("url=http://127.0.0.1:"));
    assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn it_announces_its_address_and_ends_for_another_kernel() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let status = folder.path().join("status");
    fs::write(&status, "ready 6.12\n").unwrap();
    let mut server = Server::with_kernels(&status);
    let boot = |server: &Server, kernel: &str| act(server, "/api/kernel", &json!({ "kernel": kernel }));
    let refused = boot(&server, "5.10");
    refused.is_refused(404, "the workshop can't boot Linux 5.10");
    assert_eq!(refused.json()["evidence"], "the kernels to choose from: 6.12, 7.2");
    assert_eq!(server.state()["kernel"], "6.12");
    let url = server.url.clone();
    server.boot("7.2");
    assert_eq!(fs::read_to_string(&status).unwrap(), format!("ready 6.12\nurl {url}\nnext 7.2\n"));
    // The page has the same address.
    server.again();
    assert_eq!((&server.state()["kernel"], &server.url), (&json!("7.2"), &url));
    let (plain, _folder) = idle();
    assert_eq!((boot(&plain, "7.2").status, &plain.state()["kernel"]), (404, &Value::Null));
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
