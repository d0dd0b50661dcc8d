//! What the editor completes with: what the kernel offers on which the programs run. A thread of its own reads the
//! kernel's types when somebody first asks, because BTF belongs to the thread that has read it.

use std::sync::mpsc::{self, Sender};
use std::thread;

use axum::http::StatusCode;
use common::{Error, Result};
use machine::kernels::{DEFAULT, Series};
use machine::workbook::Workbook;
use tokio::sync::oneshot;

use crate::dictionary::Dictionary;
use crate::response::Refusal;

type Question = Box<dyn FnOnce(&Result<Dictionary>) + Send>;

pub struct Words {
    questions: Sender<Question>,
}

impl Words {
    /// About the kernel of this workbook's guests; in the workshop's guest, about its own.
    pub fn new(workbook: &Workbook) -> Self {
        let (questions, asked) = mpsc::channel::<Question>();
        let (is_here, arch) = (workbook.is_in_guest(), workbook.arch());
        thread::spawn(move || {
            let read = || match is_here {
                true => Dictionary::here(),
                false => Dictionary::of(&Series::of(DEFAULT)?.here(arch)?),
            };
            let mut known = None;
            for question in asked {
                // A kernel that is not here yet may come with the first run.
                let now = known.take().filter(Result::is_ok).unwrap_or_else(read);
                question(&now);
                known = Some(now);
            }
        });
        Self { questions }
    }

    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Dictionary) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (answer, answered) = oneshot::channel();
        let asked = self.questions.send(Box::new(move |dictionary| {
            // The page may have gone.
            let _ = answer.send(dictionary.as_ref().map(question).map_err(Clone::clone));
        }));
        let gone = || Error::new("nobody knows the kernel's types any more").fix("start the workshop again");
        let failed = |error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error);
        asked.map_err(|_| failed(gone()))?;
        answered.await.map_err(|_| failed(gone()))?.map_err(Refusal::from)
    }
}
