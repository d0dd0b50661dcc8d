//! What the program prints for a recording.

use std::process::{Command, Stdio};

use ctracer::recording::{Call, Function, Header, Place, Record, Writer};

#[test]
fn a_closed_pipe_ends_the_tree_and_not_the_summary() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let function = Function {
        name: "bio_put".into(),
        prototype: "void bio_put(struct bio *bio)".into(),
        ..Function::default()
    };
    let header = Header { class: "bio".into(), functions: vec![function], ..Header::default() };
    let mut writer = Writer::new(file.reopen().unwrap(), header).unwrap();
    for time in 0..9 {
        writer
            .add(&Record::Call(Call { place: Place { time, ..Place::default() }, ..Call::default() }))
            .unwrap();
    }
    writer.flush().unwrap();
    let (reader, stdout) = std::io::pipe().unwrap();
    drop(reader);
    let mut show = Command::new(env!("CARGO_BIN_EXE_ctracer"));
    show.arg("show").arg(file.path()).stdout(Stdio::from(stdout));
    let output = show.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && stderr.starts_with("Calls: 9, ") && stderr.lines().count() == 1,
        "{stderr}"
    );
}
