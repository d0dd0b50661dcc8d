//! Answers of the API: JSON, or an error with its three parts.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use common::Error;
use serde_json::Value;

pub type JsonResponse = Result<Json<Value>, Refusal>;

/// An error as the page gets it: a status, and a cause, evidence and fix in JSON.
pub struct Refusal(pub StatusCode, pub Error);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

/// Most errors mean that the request does not fit what is there.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(StatusCode::UNPROCESSABLE_ENTITY, error)
    }
}

/// `result.status(NOT_FOUND)`: the error, with this status.
pub trait WithStatus<T> {
    fn status(self, status: StatusCode) -> Result<T, Refusal>;
}

impl<T> WithStatus<T> for Result<T, Error> {
    fn status(self, status: StatusCode) -> Result<T, Refusal> {
        self.map_err(|error| Refusal(status, error))
    }
}
