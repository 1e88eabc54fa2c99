"""Chat templates with what makes those of the families that people serve hard. Written for these tests."""

CHATML = """\
{%- for message in messages %}
{{- '<|im_start|>' ~ message['role'] ~ '\\n' ~ message['content'] ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

LLAMA3 = """\
{#- A date from the clock, the tokenizer's first token, trimmed texts, tools with indent, one call at a time. -#}
{%- macro opened(role) %}{{- '<|start_header_id|>' ~ role ~ '<|end_header_id|>\\n\\n' }}{%- endmacro %}
{%- set today = date_string if date_string is defined else strftime_now('%d %b %Y') %}
{%- set first = messages | first %}
{%- set has_system = first.role == 'system' %}
{{- bos_token }}{{ opened('system') }}
{%- if tools is not none %}{{- 'Environment: ipython\\n' }}{%- endif %}
{{- 'Today Date: %s\\n\\n' | format(today) }}
{%- for tool in tools or [] %}{{- tool | tojson(indent=4) ~ '\\n\\n' }}{%- endfor %}
{{- (first.content | trim if has_system) ~ '<|eot_id|>' }}
{%- for message in messages %}
    {%- if has_system and loop.first %}{% continue %}{% endif %}
    {%- if message.tool_calls is defined %}
        {%- if message.tool_calls | count > 1 %}{{- raise_exception('one call at a time') }}{%- endif %}
        {%- for call in message.tool_calls %}
{{- opened('assistant') }}{"name": "{{ call.function.name }}", {# #}
            {{- '"parameters": ' ~ (call.function.arguments | tojson) ~ '}<|eot_id|>' }}
        {%- endfor %}
    {%- elif message.role in ('tool', 'ipython') %}
        {{- opened('ipython') ~ (message.content | tojson) ~ '<|eot_id|>' }}
    {%- else %}
        {{- opened(message.role) ~ (message.content | trim) ~ '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- opened('assistant') }}{%- endif %}
"""

QWEN3 = """\
{#- Tools in the system prompt, reasoning only behind the last question, results of tools as what a user says. -#}
{%- set at = namespace(question=-1) %}
{%- for message in messages | reverse %}
    {%- set text = message.content %}
    {%- set is_result = text.startswith('<tool_response>') and text.endswith('</tool_response>') %}
    {%- if at.question < 0 and message.role == 'user' and not is_result %}
        {%- set at.question = loop.revindex0 %}
    {%- endif %}
{%- endfor %}
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '# Tools\\n\\n<tools>\\n' ~ (tools | map('tojson') | join('\\n')) ~ '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' ~ messages[0].content ~ '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set said, thought = message.content, message.reasoning_content or '' %}
    {%- if not thought and '</think>' in said %}
        {%- set pieces = said.split('</think>') %}
        {%- set thought, said = pieces[0].split('<think>')[-1].strip('\\n'), pieces[-1].lstrip('\\n') %}
    {%- endif %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user' if messages[loop.index0 - 1].role != 'tool' or loop.first }}
        {{- '\\n<tool_response>\\n' ~ said ~ '\\n</tool_response>' }}
        {{- '<|im_end|>\\n' if loop.last or loop.nextitem.role != 'tool' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > at.question and (thought or loop.last) %}
            {{- '<think>\\n' ~ thought ~ '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- said }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n' if said or not loop.first }}
            {{- '<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' }}
            {{- call.function.arguments | tojson ~ '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'user' or not loop.first %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ said ~ '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' ~ ('<think>\\n\\n</think>\\n\\n' if enable_thinking is sameas false) }}
{%- endif %}
"""

VISION = """\
{%- macro shown(content) %}
    {%- for item in [content] if item is string %}{{- item }}{%- else %}
        {%- for item in content %}
            {{- '<|vision_start|><|image_pad|><|vision_end|>' if item.type == 'image' }}
            {{- item.text if 'text' in item }}
        {%- endfor %}
    {%- endfor %}
{%- endmacro %}
{%- for message in messages %}
{{- '<|im_start|>' ~ message.role ~ '\\n' ~ shown(message.content) ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

EVERYTHING_AS_JSON = """\
{{- tools | tojson }}{{ documents | tojson }}{{ messages | tojson(sort_keys=false) }}
{%- for message in messages %}
{%- if loop.index > 3 %}{% break %}{% endif %}
{%- generation %}<|im_start|>{{ message.role }}{% endgeneration %}
{%- endfor %}
{{- add_generation_prompt }} {{ reasoning_effort }} {{ mood }} {{ bos_token }} {{ eos_token }}
"""
"""Shows whatever it is given, in the order in which it comes."""
