//! Messages on standard output: one JSON line each for programs, a readable form for people.
//!
//! A line is `{"topic":…,"key":…,"headers":{…},"value":…}`. A JSON value is embedded; a binary one is base64 text, and
//! `"encoding":"base64"` follows it. A key or header that is not text is `{"base64":"…"}`; no key is `null`.
//! Rule: a message is delivered once the flush after it succeeded.

use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use headwater_core::ledger::Ticket;
use headwater_core::message::{Content, Message};
use headwater_core::sink::{Report, Sink, Unsent};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Error;

/// So many messages wait for the writer at most.
const QUEUE: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One JSON line a message.
    Lines,
    /// For a terminal.
    Readable { colour: bool },
}

/// Writes in a thread of its own, so that a reader who pauses holds up nothing but the messages.
pub struct Stdout {
    queue: SyncSender<(Message, Ticket)>,
    reports: UnboundedReceiver<Result<Report, Error>>,
    broken: Option<Error>,
}

impl Stdout {
    pub fn open(form: Form) -> Result<Stdout, Error> {
        Stdout::open_to(io::stdout(), form)
    }

    /// Writes elsewhere than to standard output.
    pub fn open_to(out: impl Write + Send + 'static, form: Form) -> Result<Stdout, Error> {
        let (queue, messages) = sync_channel(QUEUE);
        let (tell, reports) = unbounded_channel();
        thread::Builder::new()
            .name("stdout".into())
            .spawn(move || {
                if let Err(error) = write_all(out, form, &messages, &tell) {
                    // Nobody listens any more when the sink is being dropped.
                    let _ = tell.send(Err(broken(&error)));
                }
            })
            .map_err(|e| Error::transient(format!("no thread for standard output: {e}")))?;
        Ok(Stdout {
            queue,
            reports,
            broken: None,
        })
    }

    fn break_off(&mut self, error: Error) -> Error {
        self.broken.get_or_insert(error).clone()
    }
}

impl Sink for Stdout {
    type Error = Error;

    fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Error>> {
        if let Some(error) = &self.broken {
            return Err(Unsent::Broken(error.clone()));
        }
        match self.queue.try_send((message, ticket)) {
            Ok(()) => Ok(()),
            // All that fill the queue will be reported, and with the last of them there is room.
            Err(TrySendError::Full((message, ticket))) => Err(Unsent::Later(message, ticket)),
            // The writer has ended; why, is the last of its reports.
            Err(TrySendError::Disconnected((message, ticket))) => {
                Err(Unsent::Later(message, ticket))
            }
        }
    }

    async fn next_report(&mut self) -> Result<Report, Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        match self.reports.recv().await {
            Some(Ok(report)) => Ok(report),
            Some(Err(error)) => Err(self.break_off(error)),
            None => Err(self.break_off(Error::transient("the writer of standard output ended"))),
        }
    }
}

fn broken(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Error::fatal(
            "standard output was closed",
            "keep the program open that reads it; what it has not read comes again at the next start",
        ),
        _ => Error::transient(format!("standard output cannot be written: {error}")),
    }
}

/// Until the queue is closed. What waits is written in one go: a flush for each message would be most of the work.
fn write_all(
    out: impl Write,
    form: Form,
    messages: &Receiver<(Message, Ticket)>,
    tell: &UnboundedSender<Result<Report, Error>>,
) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let mut tickets = Vec::new();
    while let Ok(first) = messages.recv() {
        let waiting = std::iter::once(first).chain(messages.try_iter().take(QUEUE));
        for (message, ticket) in waiting {
            write(&mut out, form, &message)?;
            tickets.push(ticket);
        }
        out.flush()?;
        for ticket in tickets.drain(..) {
            let _ = tell.send(Ok(Report::Delivered(ticket)));
        }
    }
    Ok(())
}

fn write(out: &mut impl Write, form: Form, message: &Message) -> io::Result<()> {
    match form {
        Form::Lines => write_line(out, message),
        Form::Readable { colour } => write_readable(out, colour, message),
    }
}

fn write_line(out: &mut impl Write, message: &Message) -> io::Result<()> {
    let address = &message.address;
    write!(out, "{{\"topic\":{},\"key\":", quoted(&address.topic))?;
    match &address.key {
        None => out.write_all(b"null")?,
        Some(key) => write_bytes(out, key)?,
    }
    out.write_all(b",\"headers\":{")?;
    for (index, (name, value)) in address.headers.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}{}:", quoted(name))?;
        write_bytes(out, value)?;
    }
    out.write_all(b"},\"value\":")?;
    match message.content {
        Content::Json => write_json(out, &message.value)?,
        Content::Binary => write!(
            out,
            "\"{}\",\"encoding\":\"base64\"",
            STANDARD.encode(&message.value)
        )?,
    }
    out.write_all(b"}\n")
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn write_bytes(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) => out.write_all(quoted(text).as_bytes()),
        Err(_) => write!(out, "{{\"base64\":\"{}\"}}", STANDARD.encode(bytes)),
    }
}

/// On one line: a line's end in JSON can only stand between its words, where a space says the same.
fn write_json(out: &mut impl Write, value: &[u8]) -> io::Result<()> {
    for (index, part) in value.split(|b| matches!(b, b'\n' | b'\r')).enumerate() {
        if index > 0 {
            out.write_all(b" ")?;
        }
        out.write_all(part)?;
    }
    Ok(())
}

fn write_readable(out: &mut impl Write, colour: bool, message: &Message) -> io::Result<()> {
    let (bold, dim, plain) = if colour {
        ("\x1b[1;36m", "\x1b[2m", "\x1b[0m")
    } else {
        ("", "", "")
    };
    let address = &message.address;
    write!(out, "{bold}{}{plain}", shown(address.topic.as_bytes()))?;
    if let Some(key) = &address.key {
        write!(out, "  {}", shown(key))?;
    }
    for (name, value) in &address.headers {
        write!(
            out,
            "  {dim}{}={}{plain}",
            shown(name.as_bytes()),
            shown(value)
        )?;
    }
    out.write_all(b"\n  ")?;
    match message.content {
        Content::Json => write_json(out, &message.value)?,
        Content::Binary => write!(
            out,
            "{dim}{} bytes, base64{plain} {}",
            message.value.len(),
            STANDARD.encode(&message.value)
        )?,
    }
    out.write_all(b"\n")
}

/// Text without control characters, which could do anything to a terminal.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let chars = text.chars();
            chars
                .map(|c| if c.is_control() { '\u{fffd}' } else { c })
                .collect()
        }
        Err(_) => format!("base64:{}", STANDARD.encode(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};

    use super::*;
    use bytes::Bytes;
    use headwater_core::ledger::Ledger;
    use headwater_core::message::Address;
    use headwater_core::trouble::Trouble;

    fn message(key: Option<&'static [u8]>, content: Content, value: &'static [u8]) -> Message {
        Message {
            id: "7".into(),
            address: Address {
                key: key.map(Bytes::from_static),
                ..Address::of("shop")
            },
            content,
            value: Bytes::from_static(value),
        }
    }

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Page {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(form: Form, message: &Message) -> String {
        let mut out = Vec::new();
        write(&mut out, form, message).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_json_value_is_embedded_on_one_line() {
        let message = message(
            Some(b"k1"),
            Content::Json,
            b"{\n  \"a\": \"x\\n\",\r\n  \"b\": 1\n}",
        );
        let line = written(Form::Lines, &message);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        let value = serde_json::json!({"a": "x\n", "b": 1});
        let all = serde_json::json!({"topic": "shop", "key": "k1", "headers": {}, "value": value});
        assert_eq!(json, all);
    }

    #[test]
    fn a_binary_value_is_base64_and_said_to_be() {
        let line = written(Form::Lines, &message(None, Content::Binary, b"\x00\xff\n"));
        assert_eq!(
            line,
            "{\"topic\":\"shop\",\"key\":null,\"headers\":{},\"value\":\"AP8K\",\"encoding\":\"base64\"}\n"
        );
    }

    #[test]
    fn a_binary_value_is_base64_with_its_size_for_people() {
        let message = message(Some(b"k"), Content::Binary, b"\x00\xff\n");
        let plain = written(Form::Readable { colour: false }, &message);
        assert_eq!(plain, "shop  k\n  3 bytes, base64 AP8K\n");
    }

    #[test]
    fn a_key_or_header_that_is_not_text_is_marked() {
        let mut message = message(Some(b"\xff"), Content::Json, b"1");
        message.address.headers = vec![
            ("id".into(), Bytes::from_static(b"a\"b")),
            ("raw".into(), Bytes::from_static(b"\xfe")),
        ];
        let json: serde_json::Value =
            serde_json::from_str(&written(Form::Lines, &message)).unwrap();
        assert_eq!(json["key"], serde_json::json!({"base64": "/w=="}));
        assert_eq!(
            json["headers"],
            serde_json::json!({"id": "a\"b", "raw": {"base64": "/g=="}})
        );
    }

    #[test]
    fn the_readable_form_has_colour_only_if_asked_and_no_foreign_escapes() {
        let message = message(Some(b"\x1b[31mk"), Content::Json, b"{\"a\":1}");
        let plain = written(Form::Readable { colour: false }, &message);
        assert_eq!(plain, "shop  \u{fffd}[31mk\n  {\"a\":1}\n");
        assert!(written(Form::Readable { colour: true }, &message).starts_with("\x1b["));
    }

    #[tokio::test]
    async fn every_message_is_written_in_order_and_reported_once() {
        let page = Page::default();
        let mut sink = Stdout::open_to(page.clone(), Form::Lines).unwrap();
        let mut ledger: Ledger<u32> = Ledger::new(1);
        for value in ["1", "2", "3"] {
            let message = message(None, Content::Json, value.as_bytes());
            sink.send(message, ledger.admit(1)).unwrap();
        }
        assert_eq!(ledger.mark(7), None);
        let mut due = None;
        for _ in 0..3 {
            let Report::Delivered(ticket) = sink.next_report().await.unwrap() else {
                panic!("not delivered");
            };
            due = ledger.settle(ticket).or(due);
        }
        assert_eq!(due, Some(7));
        let values: Vec<serde_json::Value> = page
            .text()
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(
            values
                .iter()
                .map(|v| v["value"].as_u64().unwrap())
                .collect::<Vec<_>>(),
            [1, 2, 3]
        );
    }

    /// Writes nothing until told to.
    struct Stuck(Receiver<()>, Page);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            let _ = self.0.recv();
            Ok(())
        }
    }

    fn stuck() -> (Stdout, Sender<()>) {
        let (go, wait) = channel();
        let sink = Stdout::open_to(Stuck(wait, Page::default()), Form::Lines).unwrap();
        (sink, go)
    }

    #[tokio::test]
    async fn a_full_queue_gives_the_message_back_and_takes_it_after_a_report() {
        let (mut sink, go) = stuck();
        let mut ledger: Ledger<u32> = Ledger::new(1);
        let mut taken = 0;
        let (mut back, mut ticket) = loop {
            match sink.send(message(None, Content::Json, b"1"), ledger.admit(1)) {
                Ok(()) => taken += 1,
                Err(Unsent::Later(message, ticket)) => break (message, ticket),
                Err(Unsent::Broken(error)) => panic!("{error}"),
            }
        };
        assert!(taken >= QUEUE, "{taken}");
        drop(go);
        loop {
            assert!(matches!(
                sink.next_report().await.unwrap(),
                Report::Delivered(_)
            ));
            match sink.send(back, ticket) {
                Ok(()) => break,
                Err(Unsent::Later(again, same)) => (back, ticket) = (again, same),
                Err(Unsent::Broken(error)) => panic!("{error}"),
            }
        }
    }

    #[tokio::test]
    async fn nothing_is_delivered_before_the_flush() {
        let (mut sink, go) = stuck();
        let ticket = Ledger::<u32>::new(1).admit(1);
        sink.send(message(None, Content::Json, b"1"), ticket)
            .unwrap();
        let wait = std::time::Duration::from_millis(100);
        assert!(
            tokio::time::timeout(wait, sink.next_report())
                .await
                .is_err()
        );
        go.send(()).unwrap();
        assert!(matches!(
            sink.next_report().await.unwrap(),
            Report::Delivered(_)
        ));
    }

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_closed_pipe_is_fatal_and_nothing_is_delivered() {
        let mut sink = Stdout::open_to(Closed, Form::Lines).unwrap();
        let mut ledger: Ledger<u32> = Ledger::new(1);
        sink.send(message(None, Content::Json, b"1"), ledger.admit(1))
            .unwrap();
        let error = sink.next_report().await.unwrap_err();
        assert!(
            error.is_fatal() && error.to_string().contains("standard output was closed"),
            "{error}"
        );
        let again = sink.send(message(None, Content::Json, b"1"), ledger.admit(1));
        assert!(matches!(again, Err(Unsent::Broken(_))));
    }
}
