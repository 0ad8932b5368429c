//! Replacement of several nodes of an imported model by one.

use super::{Canonical, Node};

impl Canonical {
    /// Replaces squares, their sum and its square root by one magnitude, which integers compute without rounding the
    /// squares. Results in floats keep their bits.
    pub fn with_magnitudes(mut self) -> Self {
        while let Some((squares, sum, root)) = self.magnitude() {
            let nodes = &self.architecture.nodes;
            let value = nodes[squares].inputs.first().cloned().unwrap_or_default();
            let squared = nodes[squares].name.clone();
            let inputs =
                nodes[sum].inputs.iter().map(|name| if *name == squared { value.clone() } else { name.clone() });
            let magnitude = Node {
                name: nodes[root].name.clone(),
                inputs: inputs.collect(),
                options: vec!["norm".to_owned()],
                ..nodes[sum].clone()
            };
            self.architecture.nodes[root] = magnitude;
            for node in [sum, squares] {
                self.architecture.nodes.remove(node);
            }
        }
        self
    }

    /// The indices of a product of a value with itself, of the sum of its parts, and of the square root of the sum; `None`
    /// if another node reads the product or the sum.
    fn magnitude(&self) -> Option<(usize, usize, usize)> {
        let architecture = &self.architecture;
        let nodes = &architecture.nodes;
        let only_reader = |name: &str, reader: &Node| {
            let mut others = nodes.iter().filter(|node| !std::ptr::eq(*node, reader));
            others.all(|node| node.inputs.iter().all(|input| input != name))
                && architecture.outputs.iter().all(|output| output.from != name)
        };
        let at = |name: &str| nodes.iter().position(|node| node.name == name);
        nodes.iter().enumerate().find_map(|(root, node)| {
            let is_root = node.cell == "activation" && node.activations.values().any(|of| of == "sqrt");
            let [sum_name] = node.inputs.as_slice() else { return None };
            let sum = at(sum_name).filter(|_| is_root)?;
            let of = &nodes[sum];
            let adds =
                of.cell == "merge" && of.options.iter().all(|option| option == "add") && of.unroll == node.unroll;
            let squares = at(of.inputs.first()?).filter(|_| adds && of.input_size > of.output_size)?;
            let product = &nodes[squares];
            let [a, b] = product.inputs.as_slice() else { return None };
            let is_product = product.cell == "merge" && product.options == ["multiply"];
            let is_square = is_product && a == b && product.input_size == 2 * product.output_size;
            let whole = of.inputs.iter().all(|input| *input == product.name);
            let alone = || only_reader(sum_name, node) && only_reader(&product.name, of);
            (is_square && whole && alone()).then_some((squares, sum, root))
        })
    }
}
