//! The connection to the guest.

use std::process::ChildStdin;
use std::sync::{Arc, Mutex};

use common::{Error, OrCause, Result};
use wire::protocol::{ToGuest, send};

/// The connection to the guest, for threads that pass on signals and keys.
#[derive(Clone, Debug)]
pub struct Line(Arc<Mutex<ChildStdin>>);

impl Line {
    pub(crate) fn new(input: ChildStdin) -> Self {
        Self(Arc::new(Mutex::new(input)))
    }

    pub fn send(&self, message: &ToGuest) -> Result<()> {
        let mut line = self.0.lock().map_err(|_| Error::new("a thread that wrote to the guest panicked"))?;
        send(&mut *line, message).or_cause("the guest is gone")
    }
}
