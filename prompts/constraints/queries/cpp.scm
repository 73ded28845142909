[(for_statement) (while_statement) (do_statement)] @loop
(function_definition declarator: (function_declarator
    declarator: [(identifier) (field_identifier)] @name parameters: (_) @parameters)) @function
(function_definition declarator: (function_declarator
    declarator: (qualified_identifier name: (identifier) @name) parameters: (_) @parameters)) @function
(function_definition declarator: (_ (function_declarator
    declarator: [(identifier) (field_identifier)] @name parameters: (_) @parameters))) @function
(init_declarator declarator: (identifier) @name value: (lambda_expression)) @function
(call_expression function: (identifier) @name arguments: (_) @arguments) @call
(call_expression function: (template_function name: (identifier) @name) arguments: (_) @arguments) @call
(call_expression function: (field_expression argument: (_) @object field: (field_identifier) @name)
    arguments: (_) @arguments) @call
(call_expression function: (qualified_identifier scope: (_) @object name: (identifier) @name)
    arguments: (_) @arguments) @call
(for_range_loop) @loop
(comment) @comment
(template_type name: (type_identifier) @type)
(declaration declarator: (identifier) @variable)
(init_declarator declarator: (identifier) @variable)
(binary_expression operator: ["^" "<<" ">>" "&" "|"]) @bits
(assignment_expression operator: ["^=" "<<=" ">>=" "&=" "|="]) @bits
(while_statement body: (compound_statement (declaration declarator: (init_declarator value: (_) @middle))))
(while_statement body: (compound_statement
    (expression_statement (assignment_expression right: (_) @middle))))
