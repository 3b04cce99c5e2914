//! Signatures: made, checked, required.

use super::bundles::{damage, export_all, fill, over, store_in};
use super::common::{tree, warnings};
use hipplan_serialize::Digest;
use hipplan_store::{
    LayerOptions, Limits, Lookup, Mode, PackError, SecretKey, SignaturePolicy, Store, StoreError, bundle_facts, merge_bundles, sign_bundle,
};
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn options(signatures: SignaturePolicy, trusted: &[&SecretKey]) -> LayerOptions {
    LayerOptions { signatures, trusted: trusted.iter().map(|key| key.public()).collect() }
}

fn refused(path: &Path, options: &LayerOptions) -> (&'static str, PackError) {
    let error = Store::open_layer_options(path, options).unwrap_err();
    let code = error.code();
    match error {
        StoreError::Pack { cause, .. } => (code, *cause),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bundle_is_signed_by_several_and_read_by_those_who_trust_one_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    let (plan, _, key) = fill(&origin, b"one");
    let root = export_all(&origin, &file).root.unwrap();
    let unsigned = std::fs::read(&file).unwrap();
    let [a, b, c] = [[1; 32], [2; 32], [3; 32]].map(SecretKey::from_seed);
    let require = |key| options(SignaturePolicy::Require, &[key]);

    assert!(matches!(refused(&file, &require(&a)), ("unsigned", PackError::Unsigned)));
    let reader = Store::open_layer(&file).unwrap();
    assert!(sign_bundle(&file, &a, &Limits::default()).unwrap());
    assert!(!sign_bundle(&file, &a, &Limits::default()).unwrap(), "signed by it already");
    assert!(sign_bundle(&file, &b, &Limits::default()).unwrap());
    let signed = std::fs::read(&file).unwrap();
    assert_eq!(signed.len(), unsigned.len() + 256);
    assert_eq!(signed[..unsigned.len()], unsigned);
    assert!(reader.find_selection(&key).hit().is_some(), "replaced, not changed");

    for signer in [&a, &b] {
        let store = Store::open_layer_options(&file, &require(signer)).unwrap();
        assert_eq!(store.find_selection(&key).hit().unwrap().plans, [plan]);
    }
    let (code, cause) = refused(&file, &require(&c));
    assert!(code == "untrusted" && cause.to_string().contains("not trusted"), "{cause}");
    assert_eq!(refused(&file, &options(SignaturePolicy::Require, &[])).0, "untrusted");
    let facts = bundle_facts(&file, dir.path(), false, &Limits::default()).unwrap();
    assert_eq!(facts.root, root);
    assert!(facts.signatures.iter().all(|signature| signature.is_valid));
    assert_eq!(facts.signatures.iter().map(|s| s.key).collect::<Vec<_>>(), [a.public().to_bytes(), b.public().to_bytes()]);

    // Any byte of a signature matters, and so does any byte of what is signed.
    for at in [unsigned.len() + 10, unsigned.len() + 50, unsigned.len() + 100] {
        let mut bad = signed.clone();
        bad[at] ^= 1;
        std::fs::write(&file, &bad).unwrap();
        let (code, cause) = refused(&file, &require(&a));
        assert!(code == "untrusted" && cause.to_string().contains("wrong"), "{at}: {cause}");
        Store::open_layer_options(&file, &require(&b)).unwrap();
    }
    for at in (0..unsigned.len()).step_by(97).take_while(|&at| at < 900) {
        let mut bad = signed.clone();
        bad[at] ^= 1;
        std::fs::write(&file, &bad).unwrap();
        let error = Store::open_layer_options(&file, &require(&a)).unwrap_err();
        assert!(matches!(error.code(), "damaged" | "too-new"), "{at}: {error}");
    }
    // The signature of one bundle is none of another.
    fill(&origin, b"two");
    export_all(&origin, &file);
    let other = [&std::fs::read(&file).unwrap()[..], &signed[unsigned.len()..]].concat();
    std::fs::write(&file, other).unwrap();
    assert_eq!(refused(&file, &require(&a)).0, "untrusted");
}

/// What was signed is what is read: tables that change in the file after they were checked lead nowhere.
#[test]
fn tables_that_change_after_they_were_checked_make_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    let (plan, blob, key) = fill(&origin, b"one");
    export_all(&origin, &file);
    let signer = SecretKey::from_seed([1; 32]);
    sign_bundle(&file, &signer, &Limits::default()).unwrap();
    let [signed, unsigned] = [SignaturePolicy::Require, SignaturePolicy::Off]
        .map(|policy| Store::open_layer_options(&file, &options(policy, &[&signer])).unwrap());

    // Blobs are the first values: all before them is header and tables.
    let bytes = std::fs::read(&file).unwrap();
    let value = origin.get_blob(&blob).hit().unwrap();
    let values = bytes.windows(value.len()).position(|window| *window == value[..]).unwrap();
    let in_place = std::fs::File::options().write(true).open(&file).unwrap();
    in_place.write_all_at(&vec![0xff; values - 512], 512).unwrap();

    assert_eq!(signed.find_selection(&key).hit().unwrap().plans, [plan]);
    assert!(signed.get_plan(&plan).hit().is_some() && signed.get_blob(&blob).hit().is_some());
    let (found, warnings) = warnings(|| unsigned.get_plan(&plan).hit().is_some());
    assert!(!found && !warnings.is_empty(), "without a policy, tables are read when they are needed: {warnings:?}");
}

#[test]
fn one_bad_entry_of_a_signed_bundle_does_not_sink_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    let (_, bad, _) = fill(&origin, b"bad");
    let (plan, good, key) = fill(&origin, b"good");
    export_all(&origin, &file);
    let signer = SecretKey::from_seed([1; 32]);
    sign_bundle(&file, &signer, &Limits::default()).unwrap();
    damage(&file, &origin.get_blob(&bad).hit().unwrap());
    let store = Store::open_layer_options(&file, &options(SignaturePolicy::Require, &[&signer])).unwrap();
    assert!(matches!(store.get_blob(&bad), Lookup::Miss(_)));
    assert_eq!(Digest::of(&store.get_blob(&good).hit().unwrap()), good);
    assert_eq!(store.find_selection(&key).hit().unwrap().plans, [plan]);
}

#[test]
fn without_the_signature_that_is_required_nothing_of_a_bundle_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    let (_, _, key) = fill(&origin, b"one");
    export_all(&origin, &file);
    let signer = SecretKey::from_seed([1; 32]);
    let require = options(SignaturePolicy::Require, &[&signer]);
    let front = store_in(dir.path(), "front");
    assert_eq!(front.clone().with_layer_options(&file, &require).unwrap_err().code(), "unsigned");
    let (store, warned) = warnings(|| front.clone().with_layer_options_or_warn(&file, &require));
    assert!(warned.len() == 1 && warned[0].contains("unsigned"), "{warned:?}");
    assert!(store.find_selection(&key).hit().is_none());
    assert_eq!(front.import(&file, &require).unwrap_err().code(), "unsigned");
    assert!(front.find_selection(&key).hit().is_none());

    let (store, warned) = warnings(|| front.clone().with_layer_options(&file, &options(SignaturePolicy::Warn, &[&signer])).unwrap());
    assert!(warned.len() == 1 && warned[0].contains("unsigned"), "{warned:?}");
    assert!(store.find_selection(&key).hit().is_some());
    sign_bundle(&file, &signer, &Limits::default()).unwrap();
    let (_, warned) = warnings(|| front.clone().with_layer_options(&file, &options(SignaturePolicy::Warn, &[&signer])).unwrap());
    assert!(warned.is_empty(), "{warned:?}");
    front.import(&file, &require).unwrap();
    assert!(front.find_selection(&key).hit().is_some());
    // What is merged is another bundle, which nobody has signed.
    let merged = dir.path().join("merged");
    merge_bundles(&[file], &merged, &Limits::default()).unwrap();
    assert_eq!(Store::open_layer_options(&merged, &require).unwrap_err().code(), "unsigned");
}

/// Files of their own cannot be signed: that they are used, or are not, is said once for a layer.
#[test]
fn loose_files_of_a_layer_are_told_of_where_signatures_matter() {
    let dir = tempfile::tempdir().unwrap();
    let origin = store_in(dir.path(), "origin");
    let (_, _, key) = fill(&origin, b"one");
    let front = store_in(dir.path(), "front");
    let signer = SecretKey::from_seed([1; 32]);
    for (policy, is_found) in [(SignaturePolicy::Warn, true), (SignaturePolicy::Require, false), (SignaturePolicy::Off, true)] {
        let (found, warned) = warnings(|| {
            let store = front.clone().with_layer_options(origin.root(), &options(policy, &[&signer])).unwrap();
            [(); 2].map(|()| store.find_selection(&key).hit().is_some())
        });
        assert_eq!(found, [is_found; 2], "{policy:?}");
        let about = warned.iter().filter(|text| text.contains("code=\"unsigned\"")).count();
        assert_eq!((warned.len(), about), if policy == SignaturePolicy::Off { (0, 0) } else { (1, 1) }, "{policy:?} {warned:?}");
    }
    // A folder that has none is none to be told of.
    let empty = store_in(dir.path(), "empty");
    let (_, warned) = warnings(|| front.with_layer_options(empty.root(), &options(SignaturePolicy::Require, &[&signer])).unwrap());
    assert!(warned.is_empty(), "{warned:?}");
}

#[test]
fn of_a_folder_only_signed_packs_are_read_where_signatures_are_required() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    let (packed, _, packed_key) = fill(&origin, b"packed");
    export_all(&origin, &file);
    let folder = store_in(dir.path(), "folder");
    let (loose, _, loose_key) = fill(&folder, b"loose");
    let pack = folder.import(&file, &LayerOptions::default()).unwrap().pack.unwrap();
    let signer = SecretKey::from_seed([1; 32]);
    let before = tree(folder.root());
    let require = options(SignaturePolicy::Require, &[&signer]);
    let open = || Store::open_layer_options(folder.root(), &require).unwrap();

    let (store, warned) = warnings(|| {
        let store = open();
        assert!(store.find_selection(&packed_key).hit().is_none());
        assert!(store.get_plan(&loose).hit().is_none() && store.find_selection(&loose_key).hit().is_none());
        assert_eq!(store.iter_plans().count(), 0);
        store
    });
    // Of the loose files, and of the pack.
    assert!(warned.len() == 2 && warned.iter().all(|text| text.contains("code=\"unsigned\"")), "{warned:?}");
    drop(store);
    assert_eq!(tree(folder.root()), before, "nothing is set aside");

    sign_bundle(&pack, &signer, &Limits::default()).unwrap();
    let store = open();
    assert_eq!(store.find_selection(&packed_key).hit().unwrap().plans, [packed]);
    assert!(store.get_plan(&packed).hit().is_some());
    assert!(store.get_plan(&loose).hit().is_none() && store.find_selection(&loose_key).hit().is_none());
    assert_eq!(store.iter_plans().filter_map(Result::ok).collect::<Vec<_>>(), [packed]);
    // A loose file cannot take the place of what is signed.
    fill(&folder, b"packed");
    assert_eq!(open().find_selection(&packed_key).hit().unwrap().plans, [packed]);
    let all: BTreeSet<_> = Store::open(folder.root(), Mode::ReadOnly).unwrap().iter_plans().filter_map(Result::ok).collect();
    assert_eq!(all, BTreeSet::from([packed, loose]), "without the policy, all of it");
    assert!(over(dir.path(), folder.root()).find_selection(&loose_key).hit().is_some());
}

#[test]
fn only_what_is_whole_is_signed_and_not_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    fill(&origin, b"one");
    export_all(&origin, &file);
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[600] ^= 1;
    std::fs::write(&file, &bad).unwrap();
    assert_eq!(sign_bundle(&file, &SecretKey::from_seed([1; 32]), &Limits::default()).unwrap_err().code(), "damaged");
    assert_eq!(std::fs::read(&file).unwrap(), bad);
    std::fs::write(&file, good).unwrap();
    for seed in 0..64 {
        assert!(sign_bundle(&file, &SecretKey::from_seed([seed; 32]), &Limits::default()).unwrap());
    }
    assert_eq!(sign_bundle(&file, &SecretKey::from_seed([99; 32]), &Limits::default()).unwrap_err().code(), "refused");
    assert_eq!(bundle_facts(&file, dir.path(), false, &Limits::default()).unwrap().signatures.len(), 64);
}
