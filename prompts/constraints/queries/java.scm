[(for_statement) (while_statement) (do_statement)] @loop
(method_declaration name: (identifier) @name parameters: (_) @parameters) @function
(method_invocation !object name: (identifier) @name arguments: (_) @arguments) @call
(method_invocation object: (_) @object name: (identifier) @name arguments: (_) @arguments) @call
(enhanced_for_statement) @loop
[(line_comment) (block_comment)] @comment
(type_identifier) @type
(method_invocation object: (identifier) @type)
(variable_declarator name: (identifier) @variable)
(binary_expression operator: ["^" "<<" ">>" ">>>" "&" "|"]) @bits
(assignment_expression operator: ["^=" "<<=" ">>=" ">>>=" "&=" "|="]) @bits
(while_statement body: (block
    (local_variable_declaration declarator: (variable_declarator value: (_) @middle))))
(while_statement body: (block (expression_statement (assignment_expression right: (_) @middle))))
