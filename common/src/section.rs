//! The names in `SEC()`. libbpf takes many that are wrong, and then fails when it attaches the program, without a word, or
//! looks for a function whose name has a blank.

use std::fs;

use crate::{Error, Result, tracefs};

/// Functions of the kernel that never return: most are in `noreturn_deny` of `kernel/bpf/verifier.c`. Since 6.16, and its fixes
/// for older kernels, the kernel refuses fexit on these; before, the program just never ran.
const NEVER_RETURN: [&str; 8] = [
    "__x64_sys_exit",
    "__x64_sys_exit_group",
    "do_exit",
    "do_group_exit",
    "kthread_complete_and_exit",
    "kthread_exit",
    "make_task_dead",
    "panic",
];

/// Checks the form of a name such as `tracepoint/block/block_rq_issue`. Whether the kernel has the event or the function is
/// another question.
///
/// # Errors
/// If nothing can attach there, with the name that was meant.
pub fn check(section: &str) -> Result<()> {
    let (kind, name) = section.trim_start_matches('?').split_once('/').unwrap_or((section, ""));
    let is_of_event = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // `+` is for an offset, `*` and `?` for a pattern, `.` for a part of a function, and `:` comes after a module.
    let is_of_function = |c: char| is_of_event(c) || "+*?.:".contains(c);
    let pieces = |is_part: &dyn Fn(char) -> bool| -> Vec<String> {
        name.split(|c| !is_part(c)).filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
    };
    let (form, right) = match kind.split('.').next().unwrap_or_default() {
        "tracepoint" | "tp" => {
            let right = match &pieces(&is_of_event)[..] {
                [] => "GROUP/EVENT".to_owned(),
                [event] => format!("{}/{event}", group(event).unwrap_or_else(|| "GROUP".to_owned())),
                [.., group, event] => format!("{group}/{event}"),
            };
            ("the event's group, and the event", right)
        }
        "raw_tp" | "raw_tracepoint" | "tp_btf" => {
            ("the event, without its group", pieces(&is_of_event).pop().unwrap_or_else(|| "EVENT".to_owned()))
        }
        "kprobe" | "kretprobe" | "fentry" | "fexit" | "fmod_ret" | "fsession" => {
            let last = name.rsplit('/').next().unwrap_or_default();
            let function = last.split(|c| !is_of_function(c)).find(|piece| !piece.is_empty());
            ("the function's name, and nothing else", function.unwrap_or("FUNCTION").to_owned())
        }
        _ => return Ok(()),
    };
    // Without a slash, user space chooses.
    if section.contains('/') && name != right {
        return Err(Error::new(format!("SEC(\"{section}\") does not name what the program is for"))
            .evidence(format!("after {kind}/ comes {form}"))
            .fix(format!("write SEC(\"{kind}/{right}\")")));
    }
    let entry = match kind {
        "fexit" | "fexit.s" => "fentry",
        "kretprobe" => "kprobe",
        _ => return Ok(()),
    };
    if NEVER_RETURN.contains(&name) {
        return Err(Error::new(format!("{name}() never returns, so no {kind} program can run there"))
            .evidence(format!("SEC(\"{section}\")"))
            .fix(format!("attach to its entry: SEC(\"{entry}/{name}\")")));
    }
    Ok(())
}

/// What is wrong if libbpf could not attach a program because its section only has a type, such as `kprobe`. libbpf says no more
/// than that it is not supported, and user space may choose later.
pub fn nameless<'a>(mut sections: impl Iterator<Item = &'a str>, error: &str) -> Option<Error> {
    const KINDS: [&str; 6] = ["kprobe", "kretprobe", "tracepoint", "tp", "raw_tp", "raw_tracepoint"];
    if !error.contains("failed to attach BPF program: Operation not supported") {
        return None;
    }
    let kind = sections.find(|section| KINDS.contains(section))?;
    let cause = format!("SEC(\"{kind}\") does not name what the program attaches to");
    Some(Error::new(cause).evidence(error).fix(format!("name it after a slash: SEC(\"{kind}/NAME\")")))
}

/// The group of an event, if only one has an event of this name.
fn group(event: &str) -> Option<String> {
    let groups = fs::read_dir(tracefs::mounted()?.join("events")).ok()?.flatten();
    let with = groups.filter(|group| group.path().join(event).is_dir());
    let names: Vec<_> = with.map(|group| group.file_name().to_string_lossy().into_owned()).collect();
    <[_; 1]>::try_from(names).ok().map(|[name]| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_form_is_an_error_that_has_the_right_one() {
        for (wrong, right) in [
            ("tp/block:block_rq_issue", "tp/block/block_rq_issue"),
            ("tracepoint/block.block_rq_issue", "tracepoint/block/block_rq_issue"),
            ("tracepoint/block/block_rq_issue ", "tracepoint/block/block_rq_issue"),
            ("?tracepoint/no_such_event", "tracepoint/GROUP/no_such_event"),
            ("tracepoint/", "tracepoint/GROUP/EVENT"),
            ("tracepoint/events/block/block_rq_issue", "tracepoint/block/block_rq_issue"),
            ("tp_btf/block/block_rq_issue", "tp_btf/block_rq_issue"),
            ("raw_tp/block:block_rq_issue", "raw_tp/block_rq_issue"),
            ("raw_tracepoint.w/ block_rq_issue", "raw_tracepoint.w/block_rq_issue"),
            ("fentry/", "fentry/FUNCTION"),
            ("fentry/submit_bio ", "fentry/submit_bio"),
            ("kprobe/ submit_bio", "kprobe/submit_bio"),
            ("kprobe/submit_bio()", "kprobe/submit_bio"),
            ("kprobe/block/submit_bio", "kprobe/submit_bio"),
        ] {
            let error = check(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("fix:      write SEC(\"{right}\")")), "{wrong}: {error}");
        }
        insta::assert_snapshot!(check("tp_btf/block/block_rq_issue").unwrap_err(), @r#"
        SEC("tp_btf/block/block_rq_issue") does not name what the program is for
          evidence: after tp_btf/ comes the event, without its group
          fix:      write SEC("tp_btf/block_rq_issue")
        "#);
    }

    #[test]
    fn a_function_that_never_returns_has_an_entry() {
        insta::assert_snapshot!(check("fexit/do_exit").unwrap_err(), @r#"
        do_exit() never returns, so no fexit program can run there
          evidence: SEC("fexit/do_exit")
          fix:      attach to its entry: SEC("fentry/do_exit")
        "#);
        let of_kprobe = check("kretprobe/do_group_exit").unwrap_err().to_string();
        assert!(of_kprobe.contains("SEC(\"kprobe/do_group_exit\")"), "{of_kprobe}");
    }

    #[test]
    fn a_type_alone_names_nothing() {
        let error = "failed to attach BPF program: Operation not supported (os error 95)";
        let found = nameless(["fentry/submit_bio", "kprobe"].into_iter(), error).unwrap().to_string();
        assert!(found.contains("SEC(\"kprobe/NAME\")"), "{found}");
        assert_eq!(nameless(["kprobe"].into_iter(), "failed to load object"), None);
        assert_eq!(nameless(["kprobe/submit_bio"].into_iter(), error), None);
    }

    #[test]
    fn what_libbpf_understands_is_right() {
        for section in [
            "tracepoint/block/block_rq_issue",
            "tp/syscalls/sys_enter_openat",
            "?tp_btf/block_rq_issue",
            "raw_tp.w/sched_switch",
            "kprobe",
            "kprobe/submit_bio+0x4",
            "kprobe/submit_bio.part.0",
            "kprobe.multi/blk_mq_*",
            "?kprobe.session/filemap_read",
            "fentry/xfs:xfs_file_read_iter",
            "fentry/do_exit",
            "fexit.s/vfs_read",
            "uprobe//usr/bin/bash:readline",
            "iter/bpf_map",
            "tracer/function_graph",
        ] {
            assert_eq!(check(section), Ok(()), "{section}");
        }
    }
}
