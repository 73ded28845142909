(function_definition name: (identifier) @name parameters: (_) @parameters) @function
(assignment left: (identifier) @name right: (lambda)) @function
(call function: (identifier) @name arguments: (_) @arguments) @call
(call function: (attribute object: (_) @object attribute: (identifier) @name) arguments: (_) @arguments) @call
[(for_statement) (while_statement)] @loop
(comment) @comment
(block . (expression_statement (string) @comment))
(module . (expression_statement (string) @comment))
[(dictionary) (dictionary_comprehension)] @map
(set_comprehension) @set
(set) @literal
(assignment left: (identifier) @variable)
(assignment left: (attribute attribute: (identifier) @variable))
(binary_operator operator: ["^" "<<" ">>" "&" "|"]) @bits
(augmented_assignment operator: ["^=" "<<=" ">>=" "&=" "|="]) @bits
(while_statement body: (block (expression_statement (assignment left: (identifier) right: (_) @middle))))
