//! What a library shows to others under public names: the part of it that a wrapper must repeat.

use crate::elf::Elf;
use crate::error::Unsuitable;
use crate::names;
use crate::wrapper::{Export, Node, Wrapper};

/// Names that a wrapper may have, one less than its table, which also holds its own.
const MAX_NAMES: usize = 4095;

/// The version nodes of a library, without the one that only names it.
///
/// # Errors
/// If a name is no text.
pub fn nodes(elf: &Elf<'_>) -> Result<Vec<Node>, Unsuitable> {
    let definitions = elf.versions.definitions.iter().filter(|d| !d.is_base());
    definitions.map(|d| std::iter::once(d.name).chain(d.parents.iter().copied()).map(text).collect()).collect()
}

/// The exported C functions whose names `public` maps to a public name, under that name, ascending.
///
/// # Errors
/// If a name is no text.
pub fn exports(elf: &Elf<'_>, public: impl Fn(&[u8]) -> Option<&[u8]>) -> Result<Vec<Export>, Unsuitable> {
    let mut exports = Vec::new();
    for (i, symbol) in elf.symbols().filter(|(_, s)| s.is_exported() && s.is_function()) {
        if let Some(name) = public(symbol.name) {
            let version = elf.version(i);
            exports.push(Export { name: text(name)?, version: version.name.map(text).transpose()?, hidden: version.hidden });
        }
    }
    exports.sort();
    Ok(exports)
}

/// The wrapper of a stock library.
///
/// # Errors
/// If it has no SONAME or no public names.
pub fn wrapper_of_stock(elf: &Elf<'_>) -> Result<Wrapper, Unsuitable> {
    let soname = names::soname(elf)?;
    let exports = exports(elf, |name| names::is_public(name).then_some(name))?;
    if exports.is_empty() {
        let private = names::exported(elf, |name| names::public_of(name).is_some()).next().and_then(|i| elf.symbol(i));
        return Err(private.map_or(Unsuitable::NoNames, |s| Unsuitable::IsPrivate(String::from_utf8_lossy(s.name).into_owned())));
    }
    check_count(&exports)?;
    Ok(Wrapper { soname: soname.to_owned(), private_soname: names::private_soname(soname)?, nodes: nodes(elf)?, exports })
}

/// A new wrapper for the private library of a split that exists, under the old wrapper's SONAME.
///
/// # Errors
/// If the private library has no private names, or the old wrapper exports what only it has.
pub fn wrapper_of_pair(old: &Elf<'_>, private: &Elf<'_>) -> Result<Wrapper, Unsuitable> {
    let exported = exports(private, names::public_of)?;
    if exported.is_empty() {
        return Err(Unsuitable::NoNames);
    }
    check_count(&exported)?;
    let names_of = |exports: &[Export]| exports.iter().map(|e| e.name.clone()).collect::<std::collections::BTreeSet<_>>();
    let mut known = names_of(&exported);
    known.insert(crate::wrapper::LAST_ERROR.to_owned());
    let old_exports = exports(old, |name| names::is_public(name).then_some(name))?;
    if let Some(lost) = names_of(&old_exports).difference(&known).next() {
        return Err(Unsuitable::WrapperOnly(lost.clone()));
    }
    // What consumers recorded when they were linked must still be there.
    let mut all_nodes = nodes(private)?;
    let known = all_nodes.iter().filter_map(|n| n.first().cloned()).collect::<Vec<_>>();
    all_nodes.extend(nodes(old)?.into_iter().filter(|n| n.first().is_some_and(|n| !known.contains(n))));
    Ok(Wrapper {
        soname: names::soname(old)?.to_owned(),
        private_soname: names::soname(private)?.to_owned(),
        nodes: all_nodes,
        exports: exported,
    })
}

/// The shim library refuses a table of more.
fn check_count(exports: &[Export]) -> Result<(), Unsuitable> {
    if exports.len() > MAX_NAMES { Err(Unsuitable::TooManyNames(exports.len())) } else { Ok(()) }
}

fn text(name: &[u8]) -> Result<String, Unsuitable> {
    String::from_utf8(name.to_vec()).map_err(|_| Unsuitable::Layout("a symbol or version name is not UTF-8"))
}
