//! Advice for graphs with ops that another export of the same network does not have.

/// The export without this op, if there is one.
pub(super) fn advice(op: &str) -> Option<&'static str> {
    Some(match op {
        "Enter" | "Exit" | "LoopCond" | "Merge" | "NextIteration" | "Switch" => {
            "only the loops of dynamic_rnn and of Keras's layers are read, and conditions that are constant: export other \
             loops unrolled (static_rnn, unroll=True), and the training flag as a constant"
        }
        "Case"
        | "If"
        | "PartitionedCall"
        | "StatefulPartitionedCall"
        | "StatelessCase"
        | "StatelessIf"
        | "StatelessWhile"
        | "While" => {
            "freeze it with convert_variables_to_constants_v2(function, lower_control_flow=True), or build the graph \
             after tf.compat.v1.disable_control_flow_v2()"
        }
        "ReadVariableOp" | "ResourceGather" | "VarHandleOp" | "Variable" | "VariableV2" => {
            "freeze the graph, with convert_variables_to_constants of tf.compat.v1.graph_util, or with \
             convert_variables_to_constants_v2"
        }
        _ => return None,
    })
}
