//! A disk that forgets what was not synced.

use super::common::tree;
use hipplan_store::testing::Op;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files and folders by their path below the folder that is watched; a folder has no bytes.
pub(crate) type State = Vec<(PathBuf, Option<Vec<u8>>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Folder,
    File(usize),
}

/// The content of a file.
#[derive(Debug, Default)]
struct Content {
    durable: Vec<u8>,
    current: Vec<u8>,
}

/// A change of one name that is not yet durable.
#[derive(Debug)]
enum Change {
    Made(PathBuf, Node),
    Removed(PathBuf, Node),
}

#[derive(Debug)]
struct Pending {
    change: Change,
    /// Only together with this one: a file that moves loses its old name no sooner than it has its new one.
    after: Option<u64>,
    number: u64,
}

/// A call whose outcome is not yet known.
#[derive(Debug)]
enum Call {
    Create(PathBuf),
    Move(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Unlink(PathBuf),
    MakeFolder(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    SyncFile(PathBuf),
    SyncFolder(PathBuf),
}

/// What a disk holds, and what of it is durable.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    durable: BTreeMap<PathBuf, Node>,
    current: BTreeMap<PathBuf, Node>,
    contents: Vec<Content>,
    pending: Vec<Pending>,
    made: u64,
    call: Option<Call>,
}

impl Disk {
    /// What is in a folder, all of it durable.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut contents = Vec::new();
        let mut names = BTreeMap::new();
        for (path, bytes) in tree(folder) {
            let node = match bytes {
                None => Node::Folder,
                Some(bytes) => {
                    contents.push(Content { durable: bytes.clone(), current: bytes });
                    Node::File(contents.len() - 1)
                }
            };
            names.insert(path, node);
        }
        let current = names.clone();
        Self { folder: folder.to_owned(), durable: names, current, contents, pending: Vec::new(), made: 0, call: None }
    }

    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.folder).unwrap_or_else(|_| panic!("{} is outside", path.display())).to_owned()
    }

    /// A call is about to be made.
    pub(crate) fn will(&mut self, op: &Op<'_>) {
        let path = op.path();
        if !path.starts_with(&self.folder) {
            assert!(!matches!(op, Op::Create { .. } | Op::Write { .. } | Op::Unlink { .. } | Op::Rename { .. }), "{op:?} is outside");
            return;
        }
        let path = self.below(path);
        self.call = match *op {
            Op::Create { .. } => Some(Call::Create(path)),
            Op::Write { offset, bytes, .. } => Some(Call::Write(path, offset, bytes.to_vec())),
            Op::SyncFile { .. } => Some(Call::SyncFile(path)),
            Op::SyncFolder { .. } => Some(Call::SyncFolder(path)),
            Op::Rename { to, .. } => Some(Call::Move(path, self.below(to))),
            // An unfinished file moves; of one that goes back, the old name is removed by another call.
            Op::RenameNew { to, .. } if path.components().any(|part| part.as_os_str() == "tmp") => Some(Call::Move(path, self.below(to))),
            Op::RenameNew { to, .. } => Some(Call::Link(path, self.below(to))),
            Op::Unlink { .. } => Some(Call::Unlink(path)),
            Op::MakeFolder { .. } => Some(Call::MakeFolder(path)),
            _ => None,
        };
    }

    fn is_there(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(self.folder.join(path)).is_ok()
    }

    fn change(&mut self, change: Change, after: Option<u64>) -> u64 {
        match &change {
            Change::Made(path, node) => drop(self.current.insert(path.clone(), *node)),
            Change::Removed(path, _) => drop(self.current.remove(path)),
        }
        self.made += 1;
        self.pending.push(Pending { change, after, number: self.made });
        self.made
    }

    /// The call that was about to be made has been made; whether it succeeded is seen on the real disk. Tells whether it changed anything.
    pub(crate) fn settle(&mut self) -> bool {
        let Some(call) = self.call.take() else { return false };
        match call {
            Call::Create(path) => {
                if self.current.contains_key(&path) || !self.is_there(&path) {
                    return false;
                }
                self.contents.push(Content::default());
                self.change(Change::Made(path, Node::File(self.contents.len() - 1)), None);
            }
            Call::MakeFolder(path) => {
                if self.current.contains_key(&path) || !self.is_there(&path) {
                    return false;
                }
                self.change(Change::Made(path, Node::Folder), None);
            }
            Call::Move(from, to) => {
                let Some(&node) = self.current.get(&from) else { return false };
                if self.is_there(&from) {
                    return false;
                }
                let made = self.change(Change::Made(to, node), None);
                self.change(Change::Removed(from, node), Some(made));
            }
            Call::Link(from, to) => {
                let Some(&node) = self.current.get(&from) else { return false };
                if self.current.contains_key(&to) || !self.is_there(&to) {
                    return false;
                }
                self.change(Change::Made(to, node), None);
            }
            Call::Unlink(path) => {
                let Some(&node) = self.current.get(&path) else { return false };
                if self.is_there(&path) {
                    return false;
                }
                self.change(Change::Removed(path, node), None);
            }
            Call::Write(path, offset, bytes) => {
                let Some(content) = self.content(&path) else { return false };
                let end = offset as usize + bytes.len();
                if content.current.len() < end && !bytes.is_empty() {
                    content.current.resize(end, 0);
                }
                if bytes.is_empty() {
                    content.current.resize(end, 0);
                }
                content.current[offset as usize..end].copy_from_slice(&bytes);
            }
            Call::SyncFile(path) => {
                let Some(content) = self.content(&path) else { return false };
                content.durable.clone_from(&content.current);
            }
            Call::SyncFolder(path) => self.sync_folder(&path),
        }
        true
    }

    fn content(&mut self, path: &Path) -> Option<&mut Content> {
        match self.current.get(path) {
            Some(&Node::File(number)) => self.contents.get_mut(number),
            _ => None,
        }
    }

    fn sync_folder(&mut self, folder: &Path) {
        let mut durable: BTreeSet<u64> = BTreeSet::new();
        for pending in &self.pending {
            let (Change::Made(path, _) | Change::Removed(path, _)) = &pending.change;
            if path.parent() == Some(folder) {
                durable.insert(pending.number);
                durable.extend(pending.after);
            }
        }
        for pending in std::mem::take(&mut self.pending) {
            if durable.contains(&pending.number) {
                apply(&mut self.durable, &pending.change);
            } else {
                self.pending.push(pending);
            }
        }
    }

    /// Number of changes of names that are not durable.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    fn names(&self, kept: &[bool]) -> BTreeMap<PathBuf, Node> {
        let mut names = self.durable.clone();
        let mut done = BTreeSet::new();
        for (pending, _) in self.pending.iter().zip(kept).filter(|(_, kept)| **kept) {
            if pending.after.is_none_or(|before| done.contains(&before) || !self.pending.iter().any(|other| other.number == before)) {
                apply(&mut names, &pending.change);
                done.insert(pending.number);
            }
        }
        names
    }

    /// In how many ways the content of files may have suffered.
    pub(crate) fn contents(&self, kept: &[bool]) -> usize {
        let is_synced = |node: &Node| match node {
            Node::Folder => true,
            Node::File(number) => self.contents[*number].durable == self.contents[*number].current,
        };
        if self.names(kept).values().all(is_synced) { 1 } else { 4 }
    }

    /// What is there after a power cut that leaves these changes of names, with the contents suffering in one of the ways.
    pub(crate) fn after_cut(&self, kept: &[bool], way: usize) -> State {
        let content = |content: &Content| {
            let Content { durable, current } = content;
            match way {
                _ if durable == current => durable.clone(),
                0 => durable.clone(),
                1 => current[..current.len() / 2].to_vec(),
                2 => vec![0; current.len()],
                _ => current.clone(),
            }
        };
        self.state(kept, content)
    }

    /// What is there with every change of contents.
    pub(crate) fn with_everything(&self, kept: &[bool]) -> State {
        self.state(kept, |content| content.current.clone())
    }

    fn state(&self, kept: &[bool], content: impl Fn(&Content) -> Vec<u8>) -> State {
        let bytes = |node| match node {
            Node::Folder => None,
            Node::File(number) => Some(content(&self.contents[number])),
        };
        self.names(kept).into_iter().map(|(path, node)| (path, bytes(node))).collect()
    }
}

fn apply(names: &mut BTreeMap<PathBuf, Node>, change: &Change) {
    match change {
        Change::Made(path, node) => {
            // In a folder that was lost, everything is lost.
            let has_folder = path.parent().is_none_or(|parent| parent.as_os_str().is_empty() || names.get(parent) == Some(&Node::Folder));
            if has_folder {
                names.insert(path.clone(), *node);
            }
        }
        Change::Removed(path, node) => {
            if names.get(path) == Some(node) {
                names.remove(path);
            }
        }
    }
}
