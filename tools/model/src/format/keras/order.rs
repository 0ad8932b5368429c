//! Restores the order of layers that a file lists by name, from their sizes.

use crate::format::description::LayerDescription;

/// Maximum number of layers that the search for an order tries.
const MAX_TRIED: usize = 10_000;

/// A layer, as far as its tensors determine it.
pub(super) struct Found {
    pub layer: LayerDescription,
    /// Number of input features and of output features, if the tensors show them.
    pub input: Option<usize>,
    pub output: Option<usize>,
}

/// The name that Keras gives to the layers of a class, and the number after it: `layers/lstm_1` is `lstm` and 1.
pub(super) fn stem(name: &str) -> (&str, usize) {
    let own = name.rsplit('/').next().unwrap_or(name);
    match own.rsplit_once('_') {
        Some((stem, number)) if !stem.is_empty() => number.parse().map_or((own, 0), |number| (stem, number)),
        _ => (own, 0),
    }
}

/// Sorts layers into the only order in which each layer has as many input features as the previous one has output features.
/// Keras numbers the layers of a class in their order. Returns whether there is exactly one such order.
pub(super) fn restore(layers: &mut Vec<Found>) -> bool {
    let mut search = Search { layers, path: Vec::new(), found: Vec::new(), tried: 0 };
    search.extend();
    let tried = search.tried;
    let [order] = search.found.as_slice() else { return false };
    let order = order.clone();
    let mut taken: Vec<Option<Found>> = std::mem::take(layers).into_iter().map(Some).collect();
    layers.extend(order.into_iter().filter_map(|at| taken.get_mut(at)?.take()));
    tried <= MAX_TRIED
}

struct Search<'a> {
    layers: &'a [Found],
    path: Vec<usize>,
    /// The orders found so far that fit; the search stops at two.
    found: Vec<Vec<usize>>,
    tried: usize,
}

impl Search<'_> {
    fn extend(&mut self) {
        self.tried += 1;
        if self.path.len() == self.layers.len() {
            self.found.push(self.path.clone());
            return;
        }
        for (at, layer) in self.layers.iter().enumerate() {
            if self.found.len() > 1 || self.tried > MAX_TRIED {
                return;
            }
            let before = self.path.last().and_then(|&last| self.layers.get(last));
            let fits = layer.input.is_some() && before.is_none_or(|before| before.output == layer.input);
            if fits && !self.path.contains(&at) && self.is_next(layer) {
                self.path.push(at);
                self.extend();
                self.path.pop();
            }
        }
    }

    /// Whether all layers of the same class with lower numbers come before this one.
    fn is_next(&self, layer: &Found) -> bool {
        let (own, number) = stem(&layer.layer.name);
        self.layers.iter().enumerate().all(|(at, other)| {
            let (of, lower) = stem(&other.layer.name);
            of != own || lower >= number || self.path.contains(&at)
        })
    }
}
