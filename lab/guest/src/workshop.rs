//! In the workshop's guest: its network card, and the start of the server.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{OrCause, Result};
use nix::mount::{MsFlags, mount};
use wire::command::output;
use wire::kit::ROOT;

use crate::system::LINE;

/// The guest's address in QEMU's user network, and the network's mask.
const ADDRESS: [&str; 2] = ["10.0.2.15", "255.255.255.0"];

/// The address at which QEMU starts the launcher's script `keep`.
const KEEP: &str = "10.0.2.100:1";

/// Starts the network and becomes the server, which listens on this port. Returns only if it can't. The launcher has more
/// options for it.
pub fn serve(port: u16, options: &[String]) -> Result<()> {
    network()?;
    // What is compiled here shall not fill the memory.
    let built = Path::new(ROOT).join("target");
    fs::create_dir_all(&built).or_cause("cannot make the folder for what is compiled")?;
    mount(Some("tmpfs"), &built, Some("tmpfs"), MsFlags::empty(), Some("size=400m"))
        .or_cause("cannot mount the folder for what is compiled")?;
    let mut server = Command::new("workshop");
    // The shell's profile says what is kept.
    server.env("KEPT", "mine");
    server.args(["--driver", "/bin/lab", "--book"]).arg(Path::new(ROOT).join("book"));
    server.args(["--listen", ADDRESS[0], "--port", &port.to_string(), "--no-browser"]);
    server.args(["--keep", KEEP, "--announce", LINE]).args(options);
    // The launcher prints the address.
    server.stdout(Stdio::null());
    Err(server.exec()).or_cause("cannot start the workshop's server")
}

/// Loads the driver of QEMU's network card, and gives the card its address.
fn network() -> Result<()> {
    // The card's driver finds it only after the driver of its bus, which is a module before 6.12.
    for module in ["virtio_pci", "virtio_net"] {
        let _ = Command::new("modprobe").arg("-q").arg(module).status();
    }
    output(Command::new("ifconfig").args(["lo", "127.0.0.1", "up"]))?;
    let [address, mask] = ADDRESS;
    output(Command::new("ifconfig").args(["eth0", address, "netmask", mask, "up"])).map(drop)
}
