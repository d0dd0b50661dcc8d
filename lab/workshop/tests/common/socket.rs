//! Terminals and events, as the page reads them.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::net::TcpStream;

use serde_json::Value;
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use crate::common::{Server, connect};

/// A page's socket.
pub fn socket(server: &Server, path: &str) -> WebSocket<TcpStream> {
    let mut request = format!("ws://127.0.0.1:{}{path}", server.port()).into_client_request().unwrap();
    let protocols = format!("workshop, {}", server.proof());
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocols.parse().unwrap());
    let stream = connect(server.port());
    tungstenite::client(request, stream).unwrap().0
}

/// Sends keys to a terminal.
pub fn type_in(socket: &mut WebSocket<TcpStream>, keys: &str) {
    socket.send(Message::Binary(keys.to_owned().into_bytes().into())).unwrap();
}

/// Reads from a terminal until this comes.
pub fn until(socket: &mut WebSocket<TcpStream>, wanted: &str) -> String {
    until_it(socket, |seen| seen.contains(wanted))
}

/// Reads from a terminal until what it printed is enough.
pub fn until_it(socket: &mut WebSocket<TcpStream>, is_enough: impl Fn(&str) -> bool) -> String {
    let mut seen = String::new();
    while !is_enough(&seen) {
        if let Message::Binary(bytes) = socket.read().unwrap_or_else(|error| panic!("{error} after {seen:?}"))
        {
            seen += &String::from_utf8_lossy(&bytes);
        }
    }
    seen
}

/// Waits until an action has ended, and returns it.
pub fn ended(server: &Server, is_it: impl Fn(&Value) -> bool) -> Value {
    let mut events = socket(server, "/api/events?nonce=");
    loop {
        let Message::Text(text) = events.read().unwrap() else { continue };
        let event: Value = serde_json::from_str(&text).unwrap();
        let mut actions = event["state"]["actions"].as_array().into_iter().flatten();
        if let Some(action) = actions.find(|action| is_it(action) && action["phase"] == "ended") {
            return action.clone();
        }
    }
}
