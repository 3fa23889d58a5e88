//! What an error asks for: another try, or a person.

/// What must be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Trying again may help.
    Transient,
    /// A person is needed; the error's text says what for.
    Fatal,
}

/// An error that knows what it asks for.
pub trait Trouble: std::error::Error + Send + Sync + 'static {
    fn severity(&self) -> Severity;

    fn is_fatal(&self) -> bool {
        self.severity() == Severity::Fatal
    }
}
