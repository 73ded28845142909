(function_declaration name: (identifier) @name parameters: (_) @parameters) @function
(method_declaration name: (field_identifier) @name parameters: (_) @parameters) @function
(assignment_statement left: (expression_list (identifier) @name)
    right: (expression_list (func_literal))) @function
(call_expression function: (identifier) @name arguments: (_) @arguments) @call
(call_expression function: (selector_expression operand: (_) @object field: (field_identifier) @name)
    arguments: (_) @arguments) @call
(for_statement) @loop
(comment) @comment
(map_type) @map
(selector_expression operand: (identifier) @type)
(short_var_declaration left: (expression_list (identifier) @variable))
(binary_expression operator: ["^" "<<" ">>" "&" "|" "&^"]) @bits
(assignment_statement operator: ["^=" "<<=" ">>=" "&=" "|="]) @bits
