//! Why a line is skipped.

use crate::conv_problem::ConvProblemError;

/// Why a record becomes no graph: one variant per cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum SkipReason {
    /// The program is named, but no operation follows.
    #[error("no operation behind MIOpenDriver (found {found:?}); expected conv, convfp16, convbfp16, convint8, ..")]
    NoOperation { found: String },
    /// An operation that is no convolution.
    #[error("{name} is not a convolution; only convolutions become graphs")]
    OtherOperation { name: String },
    /// A word that no driver knows.
    #[error("{found:?} is no operation of MIOpenDriver; did you mean {meant}?")]
    Misspelt { found: String, meant: &'static str },
    /// The line is a comment.
    #[error("commented out: the line begins with #")]
    Commented,
    /// The usage is asked for.
    #[error("asks for help only")]
    Help,
    /// Another record begins before this one is complete.
    #[error("cut off: another record begins in the middle of it")]
    CutOff,
    /// The line has more bytes than one may have.
    #[error("the line is over the limit max_line_bytes = {limit}")]
    LineTooLong { limit: usize },
    /// The driver does not have the flag.
    #[error("unknown flag {word:?}")]
    UnknownFlag { word: String },
    /// A value where a flag should stand.
    #[error("{word:?} stands where a flag is expected; is the value before it missing?")]
    StrayValue { word: String },
    /// The last flag has no value.
    #[error("--{flag} has no value: the line ends behind it")]
    NoValue { flag: &'static str },
    /// A value that is no number.
    #[error("--{flag} is {value:?}, expected an integer")]
    NotANumber { flag: &'static str, value: String },
    /// A number that makes no sense.
    #[error("--{flag} is {value}, expected {expected}")]
    OutOfRange { flag: &'static str, value: i64, expected: &'static str },
    /// A variable of a script.
    #[error("--{flag} is the variable {value:?}, whose value the text does not tell")]
    Variable { flag: &'static str, value: String },
    /// A mode that is neither.
    #[error("--mode is {value:?}, expected conv or trans")]
    Mode { value: String },
    /// A layout that is none.
    #[error("--{flag} is {value:?}, expected an order of {expected}")]
    Layout { flag: &'static str, value: String, expected: &'static str },
    /// Vectorisation that the driver refuses.
    #[error("--tensor_vect {vect} with --vector_length {length}; expected 1 with 4 or 8, or 0 with 1")]
    Vectorisation { vect: i64, length: i64 },
    /// A vectorised tensor that strides cannot express.
    #[error(
        "{tensor} has {channels} channels in vectors of {length}, in planes of more than one element; a strided tensor cannot express that"
    )]
    Vectorised { tensor: &'static str, channels: i64, length: i64 },
    /// Groups that do not divide the channels.
    #[error("{groups} groups do not divide {channels} input and {filters} output channels")]
    Groups { groups: i64, channels: i64, filters: i64 },
    /// A cast that a graph cannot express, or that the driver refuses.
    #[error("--{flag} is {value:?}: {reason}")]
    Cast { flag: &'static str, value: String, reason: &'static str },
    /// No direction bit is set.
    #[error("--forw is {value}, in which none of the bits 1, 2 and 4 is set")]
    Direction { value: i64 },
    /// The filter does not fit.
    #[error("the filter extends over {extent} elements, and the {axis} of the image with its padding has {room}")]
    FilterTooLarge { axis: &'static str, extent: i64, room: i64 },
    /// A transposed convolution of no size.
    #[error("the {axis} of y would be {size}: the padding takes more away than there is")]
    NoOutput { axis: &'static str, size: i64 },
    /// The problem is no graph.
    #[error(transparent)]
    Problem(#[from] ConvProblemError),
    /// More problems than are kept.
    #[error("more different problems than the limit max_problems = {limit}")]
    TooManyProblems { limit: usize },
}

impl SkipReason {
    /// Whether a convolution was lost: not an operation of another kind, a comment, or a mention of the program in a sentence.
    pub fn is_loss(&self) -> bool {
        !matches!(self, Self::NoOperation { .. } | Self::OtherOperation { .. } | Self::Commented | Self::Help)
    }
}
