//! Explains a log of libbpf: `cargo run --package verifier --example explain LOG [OBJECT]`.

use std::error::Error;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let log = fs::read_to_string(arguments.next().ok_or("name the file of a log")?)?;
    let objects = match arguments.next() {
        Some(object) => verifier::Object::find_all(&fs::read(object)?),
        None => Vec::new(),
    };
    match verifier::explain(&log, &objects) {
        Some(refusal) => println!("{refusal}"),
        None => println!("This log shows no refusal."),
    }
    Ok(())
}
