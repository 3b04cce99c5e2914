//! The engine revision of a `hip` plan, taken apart for a reader: it names everything that decides the machine code.

use serde_json::{Value, json};

/// What stands before the hash of the kernels' texts.
const TEXTS: &str = "kernel texts ";

/// `ENGINE; COMPILER; ...; FLAGS; kernel texts HASH`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Revision<'r> {
    /// Of the lowering.
    pub(crate) engine: &'r str,
    /// Compiler and linker, as they name themselves.
    pub(crate) tools: Vec<&'r str>,
    /// Options of the compiler; empty where it states none.
    pub(crate) flags: &'r str,
    /// Hash of the names of the kernels, which end in hashes of their texts.
    pub(crate) texts: &'r str,
}

impl<'r> Revision<'r> {
    /// Nothing for a revision of another form, which is shown as it is.
    pub(crate) fn parse(text: &'r str) -> Option<Self> {
        let (engine, rest) = text.split_once("; ")?;
        let (compiler, texts) = rest.rsplit_once("; ")?;
        let texts = texts.strip_prefix(TEXTS)?;
        let mut tools: Vec<&str> = compiler.split("; ").collect();
        let flags = tools.pop_if(|last| last.starts_with('-')).unwrap_or_default();
        Some(Self { engine, tools, flags, texts })
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "engine": self.engine, "tools": self.tools, "flags": self.flags, "kernel_texts": self.texts })
    }
}

/// A revision as short as a caption takes it.
pub(crate) fn short(text: &str) -> String {
    Revision::parse(text).map_or_else(|| text.to_owned(), |revision| format!("{}, kernel texts {}", revision.engine, revision.texts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_come_apart_or_stay_whole() {
        let text = "1; clang version 19.1.7; LLD 19.1.7 (compatible with GNU linkers); -x hip -O3; kernel texts 0123456789abcdef";
        let revision = Revision::parse(text).expect("of the form");
        assert_eq!(revision.tools, ["clang version 19.1.7", "LLD 19.1.7 (compatible with GNU linkers)"]);
        assert_eq!((revision.engine, revision.flags, revision.texts), ("1", "-x hip -O3", "0123456789abcdef"));
        assert_eq!(short(text), "1, kernel texts 0123456789abcdef");
        let bare = Revision::parse("1; g++ 12 -O2; kernel texts 00").expect("of the form");
        assert_eq!((bare.tools.as_slice(), bare.flags), (&["g++ 12 -O2"][..], ""));
        for other in ["", "1", "1; clang", "1; clang; texts 00", "cpu 3"] {
            assert_eq!(Revision::parse(other), None, "{other}");
            assert_eq!(short(other), other);
        }
    }
}
