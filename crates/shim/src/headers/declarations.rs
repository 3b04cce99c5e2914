//! The public functions that a header declares, with the preprocessor conditions that they stand under.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        reason = "the header is somebody else's"
    )
)]

use super::token::{Kind, Token, tokens};
use crate::names;
use std::collections::BTreeSet;

/// A line of the header that is repeated, or a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// `#if`, `#ifdef` or `#ifndef`, as it stands there.
    If(String),
    /// `#elif` or `#else`, as it stands there.
    Else(String),
    /// `#endif`.
    Endif,
    /// A declaration.
    Function(Function),
}

/// A public function's declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Its name.
    pub(super) name: String,
    /// Its text without the semicolon, under the private name.
    pub(super) text: String,
    /// The same without default arguments, which C does not have; nothing where there are none.
    pub(super) text_in_c: Option<String>,
}

/// What a header holds.
#[derive(Debug, Default)]
pub(super) struct Header {
    /// Functions, and the conditions around them; conditions around nothing are left out.
    pub(super) items: Vec<Item>,
    /// Structures that are named without `struct` somewhere and have no `typedef`: C does not take that.
    pub(super) untyped_structs: BTreeSet<String>,
}

impl Header {
    /// The functions, in order.
    pub(super) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.items.iter().filter_map(|item| if let Item::Function(function) = item { Some(function) } else { None })
    }

    pub(super) fn read(text: &[u8]) -> Self {
        let tokens = tokens(text);
        let mut reader = Reader { text, statement_macros: statement_macros(text, &tokens), ..Reader::default() };
        for (index, token) in tokens.iter().enumerate() {
            reader.take(token, tokens.get(index.saturating_add(1)));
        }
        let untyped_structs = untyped_structs(text, &tokens);
        Self { items: without_empty(reader.items), untyped_structs }
    }
}

fn word<'t>(text: &'t [u8], token: &Token) -> &'t [u8] {
    text.get(token.at.clone()).unwrap_or_default()
}

fn owned(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first word of a directive, and what comes after it.
fn directive(line: &[u8]) -> (&[u8], &[u8]) {
    let line = line.strip_prefix(b"#").unwrap_or(line).trim_ascii_start();
    let end = line.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').unwrap_or(line.len());
    line.split_at_checked(end).map_or((line, &[]), |(name, rest)| (name, rest.trim_ascii()))
}

/// Macros of this header whose text makes whole declarations: they may stand before one without a semicolon between.
fn statement_macros(text: &[u8], tokens: &[Token]) -> BTreeSet<Vec<u8>> {
    let defines = tokens.iter().filter(|token| token.kind == Kind::Directive).map(|token| directive(word(text, token)));
    let bodies = defines.filter(|(name, _)| *name == b"define").map(|(_, rest)| rest);
    let whole = bodies.filter(|body| body.iter().any(|b| matches!(b, b';' | b'{')));
    whole.map(|body| body.iter().copied().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').collect()).collect()
}

/// A brace that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brace {
    /// `extern "C" {`: what is inside is at file level.
    Linkage,
    /// Any other.
    Body,
}

/// Where a reader is: restored at each branch of a condition, which are alternatives.
#[derive(Clone, Debug, Default)]
struct Place {
    braces: Vec<Brace>,
    parens: usize,
    statement: Vec<Token>,
}

#[derive(Default)]
struct Reader<'t> {
    text: &'t [u8],
    statement_macros: BTreeSet<Vec<u8>>,
    place: Place,
    /// At the start of each open condition, and whether the condition is repeated.
    conditions: Vec<(Place, bool)>,
    items: Vec<Item>,
}

impl Reader<'_> {
    fn take(&mut self, token: &Token, next: Option<&Token>) {
        match token.kind {
            Kind::Directive => self.directive(token, next),
            Kind::Mark(b'{') => self.open(),
            Kind::Mark(b'}') => self.close(),
            _ if self.place.braces.contains(&Brace::Body) => {}
            Kind::Mark(b';') if self.place.parens == 0 => self.end(),
            _ => {
                match token.kind {
                    Kind::Mark(b'(') => self.place.parens = self.place.parens.saturating_add(1),
                    Kind::Mark(b')') => self.place.parens = self.place.parens.saturating_sub(1),
                    _ => {}
                }
                self.place.statement.push(token.clone());
            }
        }
    }

    fn directive(&mut self, token: &Token, next: Option<&Token>) {
        let line = word(self.text, token);
        let text = || owned(line.trim_ascii_end());
        match directive(line) {
            (b"if" | b"ifdef" | b"ifndef", condition) => {
                // Inside a declaration it is part of its text; the header's guard is none of the functions'.
                let is_repeated = self.place.statement.is_empty() && !is_guard(self.text, condition, next);
                self.conditions.push((self.place.clone(), is_repeated));
                if is_repeated {
                    self.items.push(Item::If(text()));
                }
            }
            (b"else" | b"elif" | b"elifdef" | b"elifndef", _) => {
                if let Some((place, is_repeated)) = self.conditions.last() {
                    if *is_repeated {
                        self.items.push(Item::Else(text()));
                    }
                    self.place = place.clone();
                }
            }
            (b"endif", _) => {
                if let Some((_, true)) = self.conditions.pop() {
                    self.items.push(Item::Endif);
                }
            }
            _ => {}
        }
    }

    fn open(&mut self) {
        let is_body = self.place.braces.contains(&Brace::Body);
        let words: Vec<&[u8]> = self.place.statement.iter().map(|token| word(self.text, token)).collect();
        if !is_body && words == [&b"extern"[..], b"\"C\""] {
            self.place.statement.clear();
            self.place.braces.push(Brace::Linkage);
        } else {
            self.place.braces.push(Brace::Body);
        }
    }

    fn close(&mut self) {
        let closed = self.place.braces.pop();
        let is_inside = self.place.braces.contains(&Brace::Body);
        // A function's body ends its definition; a structure's is followed by a semicolon.
        let is_function = self.place.statement.iter().any(|token| token.kind == Kind::Mark(b'('));
        if closed == Some(Brace::Linkage) || !is_inside && is_function {
            self.place.statement.clear();
            self.place.parens = 0;
        }
    }

    fn end(&mut self) {
        let statement = std::mem::take(&mut self.place.statement);
        if let Some(function) = self.function(&statement) {
            self.items.push(Item::Function(function));
        }
    }

    /// The declaration of a public function, if that is what the statement is.
    fn function(&self, statement: &[Token]) -> Option<Function> {
        let first = word(self.text, statement.first()?);
        if matches!(first, b"typedef" | b"using" | b"static" | b"static_assert" | b"_Static_assert" | b"template") {
            return None;
        }
        let mut parens = 0_usize;
        let mut start = 0_usize;
        let mut invocation: Option<usize> = None;
        for (index, token) in statement.iter().enumerate() {
            match token.kind {
                Kind::Mark(b'(') => parens = parens.saturating_add(1),
                Kind::Mark(b')') => {
                    parens = parens.saturating_sub(1);
                    // A macro that declares something of its own ends here.
                    if parens == 0 && invocation.take().is_some() {
                        start = index.saturating_add(1);
                    }
                }
                Kind::Word if parens == 0 => {
                    let name = word(self.text, token);
                    let is_called = statement.get(index.saturating_add(1)).is_some_and(|next| next.kind == Kind::Mark(b'('));
                    if is_called && self.statement_macros.contains(name) {
                        invocation = Some(index);
                    }
                    if is_called && names::is_public(name) && index > start {
                        return self.declaration(statement.get(start..)?, index.checked_sub(start)?);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The text of a declaration, whose name is the token `at`.
    fn declaration(&self, statement: &[Token], at: usize) -> Option<Function> {
        let name = statement.get(at)?;
        let (start, end) = (statement.first()?.at.start, statement.last()?.at.end);
        let head = self.text.get(start..name.at.end)?;
        let tail = self.text.get(name.at.end..end)?;
        let text = |tail: &[u8]| owned(&[head, names::SUFFIX.as_bytes(), tail].concat());
        let mut defaults = Vec::new();
        let (mut parens, mut default) = (0_usize, None);
        for token in statement.get(at..)? {
            match token.kind {
                Kind::Mark(b'(' | b'[' | b'{') => parens = parens.saturating_add(1),
                Kind::Mark(b')' | b',' | b']') if parens <= 1 => {
                    if let Some(from) = default.take() {
                        defaults.push(from..token.at.start);
                    }
                    if token.kind != Kind::Mark(b',') {
                        parens = parens.saturating_sub(1);
                    }
                }
                Kind::Mark(b')' | b']' | b'}') => parens = parens.saturating_sub(1),
                Kind::Mark(b'=') if parens == 1 && default.is_none() => default = Some(token.at.start),
                _ => {}
            }
        }
        let text_in_c = (!defaults.is_empty()).then(|| {
            let is_default = |at: usize| defaults.iter().any(|range| range.contains(&at));
            let kept = tail.iter().zip(name.at.end..).filter(|&(_, at)| !is_default(at)).map(|(&b, _)| b);
            text(&kept.collect::<Vec<u8>>())
        });
        Some(Function { name: owned(word(self.text, name)), text: text(tail), text_in_c })
    }
}

/// Whether `#ifndef NAME` is followed by `#define NAME`.
fn is_guard(text: &[u8], condition: &[u8], next: Option<&Token>) -> bool {
    let Some(next) = next.filter(|token| token.kind == Kind::Directive) else { return false };
    let word_of = |bytes: &[u8]| bytes.iter().copied().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').collect::<Vec<u8>>();
    let (name, defined) = directive(word(text, next));
    name == b"define" && !condition.is_empty() && word_of(defined) == word_of(condition)
}

/// Drops conditions that have no function in any branch.
fn without_empty(items: Vec<Item>) -> Vec<Item> {
    // Where each open condition begins in `kept`, and whether a function has been seen since.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut kept: Vec<Item> = Vec::new();
    for item in items {
        match &item {
            Item::If(_) => open.push((kept.len(), false)),
            Item::Function(_) => open.iter_mut().for_each(|(_, is_used)| *is_used = true),
            Item::Endif => {
                if let Some((at, false)) = open.pop() {
                    kept.truncate(at);
                    continue;
                }
            }
            Item::Else(_) => {}
        }
        kept.push(item);
    }
    // A header that ends too soon.
    kept.extend(open.iter().map(|_| Item::Endif));
    kept
}

/// Structures that C cannot name as the header does.
fn untyped_structs(text: &[u8], tokens: &[Token]) -> BTreeSet<String> {
    let words: Vec<(&[u8], Kind)> = tokens.iter().map(|token| (word(text, token), token.kind)).collect();
    let (mut tags, mut bare, mut typedefs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut is_typedef = false;
    let (mut depth, mut last) = (0_usize, &b""[..]);
    for (index, &(name, kind)) in words.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|i| words.get(i)).map_or(&b""[..], |(word, _)| word);
        let after = words.get(index.saturating_add(1)).map_or(&b""[..], |(word, _)| word);
        match kind {
            Kind::Word if name == b"typedef" => (is_typedef, depth) = (true, 0),
            Kind::Word if before == b"struct" && after == b"{" => _ = tags.insert(name),
            Kind::Word if !matches!(before, b"struct" | b"union" | b"enum" | b"class") => {
                bare.insert(name);
                if depth == 0 {
                    last = name;
                }
            }
            Kind::Mark(b'{' | b'(') => depth = depth.saturating_add(1),
            Kind::Mark(b'}' | b')') => depth = depth.saturating_sub(1),
            Kind::Mark(b';') if is_typedef && depth == 0 => {
                typedefs.insert(last);
                is_typedef = false;
            }
            _ => {}
        }
    }
    tags.iter().filter(|tag| bare.contains(*tag) && !typedefs.contains(*tag)).map(|tag| owned(tag)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r##"
#ifndef GUARD_H
#define GUARD_H
#include <stddef.h>
#define DECLARE(name) struct name { }; typedef struct name* name##_t;
#ifdef __cplusplus
extern "C" {
#endif
DECLARE(miopenHandle)
EXPORT miopenStatus_t miopenCreate(miopenHandle_t* handle); // miopenNot(int);
/* miopenNeither(void); */
DECLARE(miopenThing)
EXPORT DEPRECATED("use miopenOther(x); instead") int miopenOld(void) NOTHROW;
typedef int (*miopenCallback_t)(int miopenX(void));
static inline int miopenInline(int x) { return miopenCreate(0); }
int miopenAfterInline(int (*miopenPointer)(int), const char* text);
struct miopenArgument_t { int a; };
struct miopenOther_t { int b; };
typedef struct miopenFine_t { int c; } miopenFine_t;
#ifdef BETA
EXPORT int miopenBeta(struct miopenOther_t*, miopenArgument_t* a, int dim = -1, bool b = f(1, 2),
                      miopenFine_t* = nullptr);
#else
#define NO_BETA
#endif
#if 0
typedef enum { miopenRed,
#ifdef MORE
    miopenGreen,
#endif
} miopenColour_t;
#elif defined(A) && \
    defined(B)
__attribute__((visibility("default"))) void miopenSplit(
#ifdef WIDE
    long a
#else
    int a
#endif
);
#endif
namespace x { int miopenHidden(int); }
extern int miopenVariable;
#ifdef __cplusplus
}
#endif
#endif
"##;

    #[test]
    fn functions_are_found_with_their_conditions() {
        let header = Header::read(HEADER.as_bytes());
        let names: Vec<&str> = header.functions().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["miopenCreate", "miopenOld", "miopenAfterInline", "miopenBeta", "miopenSplit"]);
        let text = |name: &str| header.functions().find(|f| f.name == name).map(|f| f.text.as_str());
        assert_eq!(text("miopenCreate"), Some("EXPORT miopenStatus_t miopenCreate_impl(miopenHandle_t* handle)"));
        assert_eq!(text("miopenOld"), Some("EXPORT DEPRECATED(\"use miopenOther(x); instead\") int miopenOld_impl(void) NOTHROW"));
        assert!(text("miopenSplit").is_some_and(|t| t.contains("#ifdef WIDE\n    long a\n#else")));
        let beta = header.functions().find(|f| f.name == "miopenBeta").expect("found");
        assert!(beta.text.contains("bool b = f(1, 2)"));
        let in_c = beta.text_in_c.as_deref().expect("it has defaults").split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(in_c, "EXPORT int miopenBeta_impl(struct miopenOther_t*, miopenArgument_t* a, int dim , bool b , miopenFine_t* )");
        let conditions: Vec<String> = header
            .items
            .iter()
            .filter_map(|item| match item {
                Item::If(text) | Item::Else(text) => Some(text.clone()),
                Item::Endif => Some("#endif".to_owned()),
                Item::Function(_) => None,
            })
            .collect();
        assert_eq!(
            conditions,
            ["#ifdef BETA", "#else", "#endif", "#if 0", "#elif defined(A) && \\\n    defined(B)", "#endif"],
            "neither the guard nor what holds no function"
        );
        assert_eq!(header.untyped_structs.iter().collect::<Vec<_>>(), ["miopenArgument_t"]);
    }

    #[test]
    fn whatever_the_text_there_is_no_panic() {
        for end in 0..HEADER.len() {
            let header = Header::read(&HEADER.as_bytes()[..end]);
            let opened = header.items.iter().filter(|item| matches!(item, Item::If(_))).count();
            let closed = header.items.iter().filter(|item| matches!(item, Item::Endif)).count();
            assert_eq!(opened, closed, "cut at {end}");
        }
        for text in ["}}}}", "#endif\n#else\n#elif", ")))(((;", "extern \"C\" {", "miopenX(", "miopenX();", "int miopenX()"] {
            Header::read(text.as_bytes());
        }
    }
}
