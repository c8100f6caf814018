//! Model files: of another version, harmed, and whole.

use proptest::prelude::*;
use serde_json::{json, Value};
use weir_interference::{Basis, ModelError, Predictor, Windows, CLIENT, SERVER, STATISTICS, VERSION};

const REDUCED: usize = SERVER.len() * STATISTICS.len();
const VECTOR: usize = 2 * CLIENT.len() + REDUCED;
const TREES: &str =
    "tree\nversion=v4\nnum_class=2\nnum_tree_per_iteration=2\nlabel_index=0\nmax_feature_idx=1\n\
    objective=multiclass num_class:2\nfeature_names=a b\ntree_sizes=1 1\n\n\
    Tree=0\nnum_leaves=2\nnum_cat=0\nsplit_feature=0\nthreshold=0.5\ndecision_type=2\nleft_child=-1\n\
    right_child=-2\nleaf_value=1 -1\nleaf_count=3 1\nis_linear=0\nshrinkage=1\n\n\n\
    Tree=1\nnum_leaves=1\nnum_cat=0\nleaf_value=0\nis_linear=0\nshrinkage=1\n\n\nend of trees\n";

fn layer(inputs: usize, outputs: usize) -> Value {
    json!({ "weights": vec![vec![0.01; outputs]; inputs], "offsets": vec![0.5; outputs] })
}

/// A model with one horizon, trees on two features, and the paper's network for two servers.
fn model() -> Value {
    let logistic = |inputs: usize| {
        json!({
            "mean": vec![0.0; inputs], "deviation": vec![1.0; inputs], "weights": [vec![0.5; inputs]],
            "offsets": [0.25], "classes": [0, 1],
        })
    };
    json!({
        "version": VERSION, "bins": [2.0], "workloads": ["known"], "windows": 4,
        "pooled": ["io_seconds", "targets_queue_max"], "relative": ["above_quiet_20_all"],
        "ratios": ["queue", "response_over_demand"], "costs": { "targets": [4.0, 4.0, 0.1, 0.1], "metadata": 4.0 },
        "unfamiliar": { "by": "above quiet", "above_quiet_f1": 0.6, "ratio_trees_f1": null },
        "horizons": [{
            "trees": TREES, "calibration": logistic(2), "above_quiet": logistic(1),
            "network": {
                "servers": 2, "mean": vec![0.0; VECTOR], "deviation": vec![1.0; VECTOR],
                "layers": [layer(VECTOR, 3), layer(3, 2), layer(4, 3), layer(3, 2)],
            },
        }],
    })
}

/// The same model, where unfamiliar jobs go to trees on ratios.
fn with_ratio_trees() -> Value {
    let mut model = model();
    model["unfamiliar"] = json!({ "by": "ratio trees", "above_quiet_f1": 0.6, "ratio_trees_f1": 0.9 });
    let calibration = model["horizons"][0]["calibration"].clone();
    model["horizons"][0]["ratio_trees"] = json!({ "trees": TREES, "calibration": calibration });
    model
}

fn bases(predictor: &Predictor, count: usize) -> Vec<Basis> {
    let (seconds, flags) = (vec![1.0; count], vec![1; 2 * count]);
    let client = vec![3.0; 2 * count * CLIENT.len()];
    let server = vec![4.0; 2 * count * REDUCED];
    let kinds = vec![0; 2 * count];
    let windows = Windows::new(2, &seconds, &flags, &kinds, &client, &server).unwrap();
    let mut found = Vec::new();
    for workload in ["known", "stranger"] {
        for prediction in predictor.predict(workload, &windows, count - 1) {
            let sum: f64 = prediction.probabilities.iter().sum();
            assert!((sum - 1.0).abs() < 1e-9 && prediction.class < prediction.probabilities.len());
            found.push(prediction.basis);
        }
    }
    found
}

#[test]
fn a_model_predicts_by_trees_by_quiet_windows_or_not_at_all() {
    let predictor = Predictor::decode(model().to_string().as_bytes()).unwrap();
    assert_eq!(predictor.bins(), [2.0]);
    assert_eq!(bases(&predictor, 10), [Basis::Trees, Basis::AboveQuiet]);
    assert_eq!(bases(&predictor, 9), [Basis::Trees, Basis::NotKnown]);
    let predictor = Predictor::decode(with_ratio_trees().to_string().as_bytes()).unwrap();
    assert_eq!(bases(&predictor, 10), [Basis::Trees, Basis::RatioTrees]);
    assert_eq!(bases(&predictor, 9), [Basis::Trees, Basis::NotKnown]);
}

#[test]
fn the_network_answers_for_as_many_servers_as_it_was_trained_with() {
    let predictor = Predictor::decode(model().to_string().as_bytes()).unwrap();
    for servers in [1, 2, 3] {
        let (flags, client) = (vec![1; servers], vec![1.0; servers * CLIENT.len()]);
        let (server, kinds) = (vec![1.0; servers * REDUCED], vec![0; servers]);
        let windows = Windows::new(servers, &[1.0], &flags, &kinds, &client, &server).unwrap();
        let made = predictor.predict("known", &windows, 0);
        assert_eq!(made[0].network.is_some(), servers == 2);
    }
}

#[test]
fn a_model_of_another_version_or_with_unknown_features_is_refused() {
    let mut other = model();
    other["version"] = json!(2);
    let refused = Predictor::decode(other.to_string().as_bytes());
    assert!(matches!(refused, Err(ModelError::Version(2))), "{refused:?}");
    let mut other = model();
    other["pooled"][1] = json!("colour");
    let refused = Predictor::decode(other.to_string().as_bytes());
    assert!(matches!(&refused, Err(ModelError::Feature(name)) if name == "colour"), "{refused:?}");
}

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    for (path, value) in [
        ("/bins", json!([])),
        ("/bins", json!([5.0, 2.0])),
        ("/bins", json!([2.0, 5.0])),
        ("/horizons", json!([])),
        ("/pooled", json!([])),
        ("/horizons/0/calibration/classes", json!([0, 2])),
        ("/horizons/0/calibration/classes", json!([1, 1])),
        ("/horizons/0/calibration/mean", json!([0.0])),
        ("/horizons/0/above_quiet/deviation", json!([0.0])),
        ("/horizons/0/above_quiet/weights", json!([])),
        ("/ratios", json!([])),
        ("/ratios/0", json!("colour")),
        ("/costs/targets/0", json!(-1.0)),
        ("/costs/targets", json!([1.0])),
        ("/costs/metadata", json!(1e300)),
        ("/unfamiliar/by", json!("a guess")),
        ("/horizons/0/ratio_trees", json!(null)),
        ("/horizons/0/ratio_trees/trees", json!("tree")),
        ("/horizons/0/ratio_trees/calibration/classes", json!([0, 2])),
        ("/horizons/0/network/servers", json!(3)),
        ("/horizons/0/network/servers", json!(1_000_000_000)),
        ("/horizons/0/network/layers/3", layer(3, 3)),
        ("/horizons/0/network/layers", json!([])),
    ] {
        let mut harmed = with_ratio_trees();
        *harmed.pointer_mut(path).unwrap() = value.clone();
        assert!(Predictor::decode(harmed.to_string().as_bytes()).is_err(), "{path} = {value}");
    }
}

proptest! {
    /// A harmed file is refused, or predicts; nothing else happens.
    #[test]
    fn any_harm_to_a_file_leaves_a_model_that_predicts(
        harms in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        is_cut in prop::bool::weighted(0.1),
    ) {
        let mut bytes = with_ratio_trees().to_string().into_bytes();
        for (place, byte) in harms {
            let place = place.index(bytes.len());
            bytes[place] = if byte & 1 == 0 { b"0123456789-.eE[,"[usize::from(byte >> 1) % 16] } else { byte };
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(predictor) = Predictor::decode(&bytes) {
            bases(&predictor, 10);
        }
    }

    /// Any bytes at all, and columns of any lengths.
    #[test]
    fn no_bytes_make_the_decoder_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        lengths in prop::array::uniform5(0_usize..40),
        servers in 0_usize..4,
    ) {
        prop_assert!(Predictor::decode(&bytes).is_err());
        let columns = lengths.map(|length| vec![1.0; length]);
        let flags = lengths.map(|length| vec![1; length]);
        if let Ok(windows) = Windows::new(servers, &columns[0], &flags[1], &flags[2], &columns[3], &columns[4]) {
            for model in [model(), with_ratio_trees()] {
                let predictor = Predictor::decode(model.to_string().as_bytes()).unwrap();
                prop_assert_eq!(predictor.predict("known", &windows, 0).len(), windows.len());
                prop_assert_eq!(predictor.predict("stranger", &windows, 0).len(), windows.len());
            }
        }
    }
}
