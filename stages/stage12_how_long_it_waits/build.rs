fn main() {
    common_build::skeleton();
}
