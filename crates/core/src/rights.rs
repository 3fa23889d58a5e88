//! The least rights that a pipeline needs on a server: plain data, which whoever prints it puts into form.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// Who gets them, and where: the end of a sentence.
    pub whose: String,
    /// The exact statements or commands by which an administrator gives them, one each. Nothing else is needed.
    pub grants: Vec<String>,
}
