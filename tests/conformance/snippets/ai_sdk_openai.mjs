import { createOpenAI } from '@ai-sdk/openai';
import { generateText, streamText } from 'ai';

const palaver = createOpenAI({ baseURL: 'http://localhost:8642/v1', apiKey: 'none' });
const question = {
  prompt: 'I need a holiday',
  maxRetries: 0, // Otherwise a workflow that fails before its first word runs three times.
  providerOptions: { openai: { store: false } }, // Send the history itself, not references to stored items.
};

const { text } = await generateText({ model: palaver.responses('eliza'), ...question });
console.log(text);

const { textStream } = streamText({ model: palaver.chat('eliza'), ...question });
for await (const piece of textStream) process.stdout.write(piece);
console.log();
