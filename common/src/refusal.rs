//! A refused BPF program as an error.

use verifier::Refusal;

use crate::Error;

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let who = if refusal.is_verifiers { "the kernel's verifier refused a BPF program: " } else { "" };
        let more = refusal.case.map(|case| format!("\nto read more: cargo lab clinic show {case}"));
        Self::new(format!("{who}{}", refusal.cause))
            .evidence(refusal.evidence())
            .fix(refusal.fix() + &more.unwrap_or_default())
    }
}
