//! In the guest: which programs may call each of the kernel's helpers, as its verifier says.

use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use common::{Error, OrCause, Result};
use lab::offers::{EVERY_PROGRAM, NO_PROGRAM};
use libbpf_rs::btf::types::{Enum, Func, Typedef};
use libbpf_rs::btf::{Btf, TypeId};
use libbpf_rs::libbpf_sys::{self as sys, bpf_insn, bpf_prog_load, bpf_prog_load_opts};

/// What the verifiers of several kernels say if a program of this kind may not call a helper. Everything else that they
/// say is about the call's arguments, which they look at afterwards.
const REFUSED: [&str; 6] = [
    "unknown func ",
    "cannot use helper ",
    "sleepable helper ",
    "helper call might sleep in a non-sleepable prog",
    " supported only for ",
    " not supported for program ",
];

/// In the guest: the names of the kernel's helpers, each with the programs that may call it.
pub fn measure() -> Result<Vec<[String; 2]>> {
    let btf = Btf::from_vmlinux().or_cause("cannot read the kernel's types")?;
    let missing = |name: &str| Error::new(format!("the kernel's types have no {name}"));
    let function = btf.type_by_name::<Func<'_>>("submit_bio").ok_or_else(|| missing("submit_bio"))?;
    let event = "btf_trace_block_bio_queue";
    let tracepoint = btf.type_by_name::<Typedef<'_>>(event).ok_or_else(|| missing(event))?;
    let (function, tracepoint) = (Some(function.type_id()), Some(tracepoint.type_id()));
    // The programs that readers of the workbook write, by how their sections begin.
    let programs = [
        ("kprobe", sys::BPF_PROG_TYPE_KPROBE, 0, None),
        ("fentry", sys::BPF_PROG_TYPE_TRACING, sys::BPF_TRACE_FENTRY, function),
        ("fexit", sys::BPF_PROG_TYPE_TRACING, sys::BPF_TRACE_FEXIT, function),
        ("tp_btf", sys::BPF_PROG_TYPE_TRACING, sys::BPF_TRACE_RAW_TP, tracepoint),
        ("tracepoint", sys::BPF_PROG_TYPE_TRACEPOINT, 0, None),
        ("raw_tracepoint", sys::BPF_PROG_TYPE_RAW_TRACEPOINT, 0, None),
        ("perf_event", sys::BPF_PROG_TYPE_PERF_EVENT, 0, None),
    ];
    let helpers = btf.type_by_name::<Enum<'_>>("bpf_func_id").ok_or_else(|| missing("bpf_func_id"))?;
    let mut rows = Vec::new();
    for value in helpers.iter() {
        let name = value.name.unwrap_or_default().to_string_lossy();
        let Some(name) = name.strip_prefix("BPF_FUNC_").filter(|name| *name != "unspec") else { continue };
        let id = u32::try_from(value.value).or_cause("a helper's number is too large")?;
        let mut callers = Vec::new();
        for (program, kind, attach, target) in programs {
            let log = log(kind, attach, target, id);
            if log.is_empty() {
                return Err(Error::new(format!("the kernel says nothing about bpf_{name} in a {program}")));
            }
            if !REFUSED.iter().any(|refused| log.contains(refused)) {
                callers.push(program);
            }
        }
        let callers = match callers.len() {
            0 => NO_PROGRAM.to_owned(),
            count if count == programs.len() => EVERY_PROGRAM.to_owned(),
            _ => callers.join(" "),
        };
        rows.push([format!("bpf_{name}"), callers]);
    }
    Ok(rows)
}

/// What the verifier says about a program that does nothing but call a helper.
fn log(kind: u32, attach: u32, target: Option<TypeId>, helper: u32) -> String {
    let instruction = |code: u32, imm| bpf_insn { code: code as u8, imm, ..bpf_insn::default() };
    let program = [
        instruction(sys::BPF_JMP | sys::BPF_CALL, helper as i32),
        instruction(sys::BPF_JMP | sys::BPF_EXIT, 0),
    ];
    let mut log = vec![0_u8; 4096];
    let mut options = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as u64,
        expected_attach_type: attach,
        attach_btf_id: target.map_or(0, u32::from),
        log_level: 1,
        log_size: log.len() as u32,
        log_buf: log.as_mut_ptr().cast(),
        ..bpf_prog_load_opts::default()
    };
    // SAFETY: the kernel reads these instructions, and writes no more than the log's size into the log.
    #[allow(unsafe_code)]
    let loaded = unsafe {
        bpf_prog_load(
            kind,
            ptr::null(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as u64,
            &raw mut options,
        )
    };
    if loaded >= 0 {
        // SAFETY: nobody else has it.
        #[allow(unsafe_code)]
        drop(unsafe { OwnedFd::from_raw_fd(loaded) });
    }
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}
