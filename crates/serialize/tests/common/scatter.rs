//! A FlatBuffers writer that uses every freedom that the format leaves and that no sane writer takes: fields of a table in any
//! order and with gaps, vtables before their tables, behind them, shared, or longer than needed, children in any order, texts and
//! lists shared or repeated, defaults stored or left out, empty lists stored or left out.

use hipplan_fuzzing::Rng;
use hipplan_serialize::AlignedBytes;

/// What an offset leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Child {
    Table(Table),
    Tables(Vec<Table>),
    Text(String),
    /// A vector of numbers of this size.
    Numbers(usize, Vec<u8>),
    /// A bare struct of this alignment.
    Struct(usize, Vec<u8>),
}

#[derive(Clone, Debug, PartialEq)]
enum Field {
    /// Bytes in the table, and their alignment.
    Inline(usize, Vec<u8>),
    Child(Child),
}

/// A table that is to be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    fields: Vec<(u16, Field)>,
}

impl Table {
    /// A number; left out or stored, as chance will have it, when it is the default.
    pub fn number<const N: usize>(&mut self, slot: u16, bytes: [u8; N], default: [u8; N], rng: &mut Rng) {
        if bytes != default || rng.one_in(2) {
            self.always(slot, N, bytes.to_vec());
        }
    }

    /// A number or struct that is stored whatever it is.
    pub fn always(&mut self, slot: u16, align: usize, bytes: Vec<u8>) {
        self.fields.push((slot, Field::Inline(align, bytes)));
    }

    /// A child; an empty text or list may be left out.
    pub fn child(&mut self, slot: u16, child: Child, rng: &mut Rng) {
        let is_empty = match &child {
            Child::Text(text) => text.is_empty(),
            Child::Numbers(_, bytes) => bytes.is_empty(),
            Child::Tables(list) => list.is_empty(),
            Child::Table(_) | Child::Struct(..) => false,
        };
        if !is_empty || rng.one_in(2) {
            self.fields.push((slot, Field::Child(child)));
        }
    }
}

struct Writer<'r> {
    rng: &'r mut Rng,
    /// No gaps but those that alignment needs.
    tight: bool,
    out: AlignedBytes,
    /// Children that are not written yet, and the places of the offsets to each.
    children: Vec<(Child, Vec<usize>)>,
    /// VTables that are not written yet, and the tables that use each.
    vtables: Vec<(Vec<u16>, Vec<usize>)>,
    /// VTables that are there.
    written: Vec<(Vec<u16>, usize)>,
}

/// A buffer of this root table.
pub fn scatter(root: &Table, tight: bool, rng: &mut Rng) -> AlignedBytes {
    let mut w = Writer { rng, tight, out: AlignedBytes::new(), children: Vec::new(), vtables: Vec::new(), written: Vec::new() };
    w.out.resize(4, 0);
    w.children.push((Child::Table(root.clone()), vec![0]));
    while !w.children.is_empty() || !w.vtables.is_empty() {
        if !w.vtables.is_empty() && (w.children.is_empty() || w.rng.one_in(6)) {
            let at = w.rng.below(w.vtables.len());
            let (vtable, tables) = w.vtables.swap_remove(at);
            w.vtable(vtable, &tables);
        } else {
            let at = w.rng.below(w.children.len());
            let (child, offsets) = w.children.swap_remove(at);
            w.child(child, &offsets);
        }
    }
    w.out
}

impl Writer<'_> {
    fn align(&mut self, align: usize) -> usize {
        let gap = if self.tight || !self.rng.one_in(4) { 0 } else { self.rng.below(3) * align };
        let at = self.out.len().next_multiple_of(align) + gap;
        self.out.resize(at, 0);
        at
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.out[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn vtable(&mut self, vtable: Vec<u16>, tables: &[usize]) {
        let at = self.align(2);
        vtable.iter().for_each(|entry| self.out.extend_from_slice(&entry.to_le_bytes()));
        for &table in tables {
            self.put(table, &(table as i32 - at as i32).to_le_bytes());
        }
        self.written.push((vtable, at));
    }

    fn child(&mut self, child: Child, offsets: &[usize]) {
        let at = match child {
            Child::Table(table) => self.table(table),
            Child::Tables(list) => {
                let at = self.align(4);
                self.out.extend_from_slice(&(list.len() as u32).to_le_bytes());
                for table in list {
                    let place = self.out.len();
                    self.out.resize(place + 4, 0);
                    self.children.push((Child::Table(table), vec![place]));
                }
                at
            }
            Child::Text(text) => {
                let at = self.align(4);
                self.out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                self.out.extend_from_slice(text.as_bytes());
                self.out.push(0);
                at
            }
            Child::Numbers(size, bytes) => {
                // The numbers are aligned, not their count; where there are none, nothing is.
                let mut at = self.align(4);
                while !bytes.is_empty() && !(at + 4).is_multiple_of(size) {
                    at += 4;
                }
                self.out.resize(at, 0);
                self.out.extend_from_slice(&((bytes.len() / size) as u32).to_le_bytes());
                self.out.extend_from_slice(&bytes);
                at
            }
            Child::Struct(align, bytes) => {
                let at = self.align(align);
                self.out.extend_from_slice(&bytes);
                at
            }
        };
        for &place in offsets {
            self.put(place, &((at - place) as u32).to_le_bytes());
        }
    }

    fn table(&mut self, table: Table) -> usize {
        let mut fields = table.fields;
        self.rng.shuffle(&mut fields);
        let start = self.align(4);
        self.out.resize(start + 4, 0);
        let slots = fields.iter().map(|(slot, _)| usize::from(*slot) + 1).max().unwrap_or(0);
        // A newer writer knows more slots and has nothing to say in them.
        let slots = slots + if self.rng.one_in(5) { self.rng.below(4) } else { 0 };
        let mut vtable = vec![0_u16; 2 + slots];
        for (slot, field) in fields {
            let at = match field {
                Field::Inline(align, bytes) => {
                    let at = self.align(align);
                    self.out.extend_from_slice(&bytes);
                    at
                }
                Field::Child(child) => {
                    let at = self.align(4);
                    self.out.resize(at + 4, 0);
                    // The same text or list once for several tables that wait for it.
                    let shares = matches!(child, Child::Text(_) | Child::Numbers(..)) && self.rng.one_in(2);
                    match self.children.iter_mut().find(|(other, _)| shares && *other == child) {
                        Some((_, places)) => places.push(at),
                        None => self.children.push((child, vec![at])),
                    }
                    at
                }
            };
            vtable[2 + usize::from(slot)] = (at - start) as u16;
        }
        vtable[0] = (2 * vtable.len()) as u16;
        vtable[1] = (self.out.len() - start) as u16;
        let there = self.written.iter().find(|(other, _)| *other == vtable).map(|&(_, at)| at);
        match there {
            Some(at) if self.rng.one_in(2) => self.put(start, &(start as i32 - at as i32).to_le_bytes()),
            _ => match self.vtables.iter_mut().find(|(other, _)| *other == vtable) {
                Some((_, tables)) => tables.push(start),
                None => self.vtables.push((vtable, vec![start])),
            },
        }
        start
    }
}
