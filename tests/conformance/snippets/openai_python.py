from openai import OpenAI

client = OpenAI(base_url="http://localhost:8642/v1", api_key="none")

response = client.responses.create(model="eliza", input="I need a holiday")
print(response.output_text)

with client.responses.stream(model="eliza", input="I need a holiday") as stream:
    for event in stream:
        if event.type == "response.output_text.delta":
            print(event.delta, end="", flush=True)
print()

completion = client.chat.completions.create(model="eliza", messages=[{"role": "user", "content": "I need a holiday"}])
print(completion.choices[0].message.content)
