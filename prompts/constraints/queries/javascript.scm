[(for_statement) (while_statement) (do_statement)] @loop
(function_declaration name: (identifier) @name parameters: (_) @parameters) @function
(method_definition name: (property_identifier) @name parameters: (_) @parameters) @function
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function
(call_expression function: (identifier) @name arguments: (_) @arguments) @call
(call_expression function: (member_expression object: (_) @object property: (property_identifier) @name)
    arguments: (_) @arguments) @call
(for_in_statement) @loop
(comment) @comment
(new_expression constructor: (identifier) @type)
(variable_declarator name: (identifier) @variable)
(binary_expression operator: ["^" "<<" ">>" ">>>" "&" "|"]) @bits
(augmented_assignment_expression operator: ["^=" "<<=" ">>=" ">>>=" "&=" "|="]) @bits
(while_statement body: (statement_block (lexical_declaration (variable_declarator value: (_) @middle))))
(while_statement body: (statement_block (expression_statement (assignment_expression right: (_) @middle))))
