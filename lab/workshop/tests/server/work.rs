//! A learner's work: saved, downloaded and uploaded.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Cursor, Write};

use serde_json::json;

use crate::common::Server;
use crate::idle;

#[test]
fn a_change_from_elsewhere_is_not_overwritten() {
    let (server, _folder) = idle();
    server.post("/api/works/03.2/start");
    let file = server.mine().join("03.2/src/main.rs");
    let has = || fs::read_to_string(&file).unwrap();
    let put = |version: &str, text: &str| server.save_over(version, "03.2", "src/main.rs", text);
    let version = |saved: &crate::common::Response| saved.json()["version"].as_str().unwrap().to_owned();
    let first = server.version("03.2", "src/main.rs");
    let saved = put(&first, "one\n");
    assert_eq!((saved.status, &*has()), (200, "one\n"));
    let second = version(&saved);
    // Another tab still has the first version.
    let refused = put(&first, "other\n");
    assert_eq!((refused.status, &*has(), &refused.json()["text"]), (409, "one\n", &json!("one\n")));
    assert_eq!(version(&refused), second);
    let third = put(&second, "two\n");
    assert_eq!(third.status, 200);
    // Nobody else changed it, so the same text again is no conflict.
    assert_eq!(put(&second, "two\n").status, 200);
    // A text that was saved after the version on which it builds is an old one, also if nobody heard that it was saved.
    fs::write(&file, "three\n").unwrap();
    let third = version(&third);
    for (version, text, was_saved) in [
        (&first, "two\n", true),
        (&third, "two\n", false),
        (&third, "one\n", false),
        (&first, "new\n", false),
    ] {
        let refused = put(version, text);
        assert_eq!((refused.status, &refused.json()["was_saved"]), (409, &json!(was_saved)), "{text}");
    }
    let names: Vec<_> =
        file.parent().unwrap().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "temporary files are left: {names:?}");
}

#[test]
fn every_exercise_can_be_started_downloaded_and_uploaded() {
    let (server, _folder) = idle();
    let ids = |server: &Server, state: &str| -> BTreeSet<String> {
        let all = server.state();
        let exercises = all["exercises"].as_array().unwrap().iter().filter(|one| one["state"] == state);
        exercises.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = ids(&server, "new");
    assert!(all.len() >= 18, "{all:?}");
    for id in &all {
        server.post(&format!("/api/works/{id}/start"));
        assert_eq!(server.page("POST", &format!("/api/works/{id}/start"), "", b"").status, 409);
        assert_eq!(server.get(&format!("/api/works/{id}/solution?peek=false")).status, 403);
        let solution = server.get(&format!("/api/works/{id}/solution?peek=true"));
        assert!(!solution.json()["files"].as_array().unwrap().is_empty(), "{solution:?}");
        // Nothing has been changed yet, so both comparisons show the same files.
        let from_mine = server.get(&format!("/api/works/{id}/solution?peek=true&mine=true")).json();
        assert_eq!(from_mine["head"], format!("From your {id} (red) to ours (green)"));
        assert_eq!(from_mine["files"], solution.json()["files"]);
        let hint = server.post(&format!("/api/works/{id}/hint")).json();
        assert_eq!(hint["shown"].as_array().unwrap().len(), 1);
    }
    // A whole stage is started in a terminal, and is work, too.
    server.post("/api/works/03/start");
    let mine = server.mine().join("03.2/src/main.rs");
    let text = fs::read_to_string(&mine).unwrap() + "// mine\n";
    let stage = fs::read_to_string(server.mine().join("03/src/main.rs")).unwrap() + "// my stage\n";
    fs::write(&mine, &text).unwrap();
    fs::write(server.mine().join("03/src/main.rs"), &stage).unwrap();
    let zip = server.get("/api/work.zip");
    assert_eq!(zip.status, 200);
    let mut archive = zip::ZipArchive::new(Cursor::new(&zip.body)).unwrap();
    assert!(archive.by_name("03.1.patch").is_err(), "only what was changed has a patch");
    let made = archive.by_name("03.2.patch").unwrap().last_modified().unwrap();
    assert!(made.year() > 1980, "{made}");
    let (other, _other_folder) = idle();
    let restored = other.page("POST", "/api/work", "", &zip.body);
    assert_eq!(restored.status, 200, "{restored:?}");
    assert_eq!(restored.json()["restored"].as_array().unwrap().len(), all.len() + 1);
    assert_eq!(fs::read_to_string(other.mine().join("03/src/main.rs")).unwrap(), stage);
    assert_eq!(ids(&other, "started"), all);
    assert_eq!(fs::read_to_string(other.mine().join("03.2/src/main.rs")).unwrap(), text);
    let diff = other.get("/api/works/03.2/diff").json();
    assert_eq!(diff["files"].as_array().unwrap().len(), 1);
    assert_eq!(other.get("/api/works/03.2/solution?mine=true").status, 403);
    let from_mine = other.get("/api/works/03.2/solution?peek=true&mine=true").json();
    let mut changes = from_mine["files"].as_array().unwrap().iter();
    let main = changes.find(|change| change["path"] == "src/main.rs").unwrap();
    assert!(main["old"].as_str().unwrap().ends_with("// mine\n"), "{main}");
    // Nothing is replaced without asking.
    let mine = other.mine().join("03.2/src/main.rs");
    fs::write(&mine, "newer").unwrap();
    let refused = other.page("POST", "/api/work?replace=false", "", &zip.body);
    refused.is_refused(409, "this would replace your files of 03.2");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "newer");
    assert_eq!(other.page("POST", "/api/work?replace=true", "", &zip.body).status, 200);
    assert_ne!(fs::read_to_string(&mine).unwrap(), "newer");
    // What a learner added comes along.
    let helpers = ["03.2/src/helper.rs", "03.2/src/bpf/helper.h"];
    helpers.iter().for_each(|name| fs::write(server.mine().join(name), "// helper\n").unwrap());
    let zip = server.get("/api/work.zip");
    assert_eq!(other.page("POST", "/api/work?replace=true", "", &zip.body).status, 200);
    let restored = helpers.map(|name| fs::read_to_string(other.mine().join(name)).unwrap());
    assert_eq!(restored, ["// helper\n"; 2]);
    // Reset.
    other.post("/api/works/03.2/start?again=true");
    assert_eq!(other.get("/api/works/03.2/diff").json()["files"], json!([]));
}

/// A zip with these files.
fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn work_that_was_zipped_again_is_restored() {
    let (server, _folder) = idle();
    let upload = |files: &[(&str, &[u8])]| server.page("POST", "/api/work?replace=true", "", &zipped(files));
    let latin: &[u8] = b"// Universit\xe4t\n";
    for (nth, files) in [
        // Safari unpacks what it downloads. The Finder then zips the folder, with its own files.
        &[
            ("my-work/03.2/src/main.rs", &b"0"[..]),
            ("my-work/.DS_Store", latin),
            ("my-work/03.2/.DS_Store", latin),
            ("__MACOSX/my-work/03.2/src/._main.rs", latin),
        ][..],
        // Windows, and an old PowerShell.
        &[("03.2\\src\\main.rs", b"1"), ("03.2\\src\\Thumbs.db", latin), ("03.2\\desktop.ini", latin)],
        &[("me/my work/03.2/src/main.rs", b"2"), ("notes.txt", latin), ("03.2.patch", latin)],
        &[("../03.2/src/main.rs", b"3"), ("03.2/../src/main.rs", b"no"), ("03.2/src/bpf/../main.rs", b"no")],
    ]
    .into_iter()
    .enumerate()
    {
        let answer = upload(files);
        assert_eq!((answer.status, &answer.json()["restored"]), (200, &json!(["03.2"])), "{answer:?}");
        let main = fs::read_to_string(server.mine().join("03.2/src/main.rs")).unwrap();
        assert_eq!(main, nth.to_string());
    }
    // What can't be restored is named in few words.
    let name = |nth: u32| format!("03.2/src/f{nth}.rs");
    let names: Vec<_> = (0..17).map(name).collect();
    let million = vec![b'x'; 1 << 20];
    let many: Vec<_> = names.iter().map(|name| (&**name, &million[..])).collect();
    let long = format!("03.2/src/{}.rs", "x".repeat(60_000));
    let large = vec![b'x'; (1 << 20) + 1];
    for (files, cause) in [
        (&[("03.2/src/main.rs", latin)][..], "03.2/src/main.rs is not text in UTF-8"),
        (&many, "this zip is too large"),
        (&[("03.2/src/f.rs", &large)], "03.2/src/f.rs is too large"),
        (&[(&long, latin)], "this is not a zip that the workshop made"),
        (&[("a/03.2/src/a.rs", b""), ("b/03.2/src/a.rs", b"")], "03.2/src/a.rs is in this zip twice"),
    ] {
        let answer = upload(files);
        answer.is_refused(400, cause);
        assert!(answer.body.len() < 500, "{answer:?}");
    }
}
