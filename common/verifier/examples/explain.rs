//! Explains a log of libbpf: `cargo run --package verifier --example explain LOG [OBJECT]`.

use std::error::Error;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let log = verifier::text(&fs::read(arguments.next().ok_or("name the file of a log")?)?);
    let objects = match arguments.next() {
        Some(object) => verifier::Object::find_all(&fs::read(object)?),
        None => Vec::new(),
    };
    match verifier::explain(&log, &objects) {
        Some(refusal) => println!("{refusal}"),
        None => println!(
            "This log shows no refusal. If the program was refused, paste the log to its end: the verifier's words are after the \
             last instruction."
        ),
    }
    Ok(())
}
