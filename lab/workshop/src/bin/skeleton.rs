//! Does for a learner's program in the workshop's guest what its build script does elsewhere.

fn main() {
    common_build::skeleton();
}
