//! The packet of a network program: it is where the context's `data` points to, and ends at `data_end`.

use super::*;

/// An access of the packet, as the verifier refuses it. R is how many bytes from the pointer's base on the comparisons
/// with `data_end` cover.
const OUTSIDE: &[&str] = &[
    "invalid access to packet, off={offset} size={length}, R{register}(id={id},off={_},r={range})",
    "invalid access to packet, off={offset} size={length}, R{register}(id={id},r={range})",
];

const BOUNDS: Kind = Kind {
    name: "packet-bounds",
    says: OUTSIDE,
    why: "It uses {length} bytes from byte {offset} on, counted from the beginning of the packet, or from the last variable that was \
          added to the pointer. The comparisons with data_end on this path cover the first {range} bytes.",
    cure: "compare the end of what you use, right before you use it: if ((void *)POINTER + SIZE > data_end) return ...; in a \
           loop, compare in each round; a comparison of another pointer, or from before a variable was added, doesn't count",
    ..KIND
};

pub const KINDS: &[Kind] = &[
    Kind { says: &["invalid access to packet, off={offset} size=0, {_}"], ..ZERO },
    Kind {
        given: &[Given::Far],
        cause: "the offset in {line} may be so large that its comparison with data_end does not count",
        why: "The verifier ignores the comparison if the pointer can be more than 65,535 bytes from where it began. What was added to \
              this one has no smaller limit.",
        cure: "limit the number before you add it to the pointer, for example offset &= 0xfff, and then compare the pointer with \
               data_end",
        ..BOUNDS
    },
    Kind {
        given: &[Given::Calls(&[""]), Given::Is("range", &["0"])],
        cause: "no comparison with data_end covers what {helper}() gets",
        ..BOUNDS
    },
    Kind {
        given: &[Given::Calls(&[""])],
        cause: "{helper}() gets more of the packet than the comparison with data_end covers",
        ..BOUNDS
    },
    Kind {
        given: &[Given::Is("range", &["0"])],
        cause: "no comparison with data_end covers what {line} uses of the packet",
        ..BOUNDS
    },
    Kind { cause: "{line} uses more of the packet than the comparison with data_end covers", ..BOUNDS },
    Kind {
        says: &[
            "math between pkt pointer and {_} is not allowed",
            "value {_} makes pkt pointer be out of bounds",
            "pkt pointer offset {_} is not allowed",
        ],
        cause: "nothing limits what {line} adds to a pointer into the packet",
        why: "The verifier follows every value that the number can have. Here it knows no limit, or the number may be negative, as a \
              signed variable can.",
        cure: "use an unsigned variable, and limit it before you add it, for example offset &= 0xfff; then compare the pointer with \
               data_end",
        ..BOUNDS
    },
    Kind {
        name: "packet-for-helper",
        says: &["helper access to the packet is not allowed", "R{register} type=pkt expected={expected}"],
        cause: "{helper}() may not use the packet itself",
        why: "In a program of this type, this helper does not take a pointer into the packet.",
        cure: "copy what you need to the stack first, with bpf_skb_load_bytes() or bpf_xdp_load_bytes(), and pass the copy; \
               bpf_perf_event_output() appends the packet's first bytes itself: flags BPF_F_CURRENT_CPU | (u64)SIZE << 32",
        ..KIND
    },
    Kind {
        name: "packet-write",
        says: &["cannot write into packet", "the prog does not allow writes to packet data"],
        cause: "{line} writes to the packet, and a program of this type may only read it",
        why: "Which programs may change a packet depends on their type: XDP and tc programs may, cgroup_skb and socket programs may \
              not.",
        cure: "only read it, for example with bpf_dynptr_slice() instead of bpf_dynptr_slice_rdwr(), or use another type",
        ..KIND
    },
];
