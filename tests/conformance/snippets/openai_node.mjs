import OpenAI from 'openai';

const client = new OpenAI({ baseURL: 'http://localhost:8642/v1', apiKey: 'none' });

const response = await client.responses.create({ model: 'eliza', input: 'I need a holiday' });
console.log(response.output_text);

const stream = client.responses.stream({ model: 'eliza', input: 'I need a holiday' });
stream.on('response.output_text.delta', ({ delta }) => process.stdout.write(delta));
await stream.finalResponse();
console.log();

const messages = [{ role: 'user', content: 'I need a holiday' }];
const completion = await client.chat.completions.create({ model: 'eliza', messages });
console.log(completion.choices[0].message.content);
