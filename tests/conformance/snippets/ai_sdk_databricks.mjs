import { createDatabricksProvider } from '@databricks/ai-sdk-provider';
import { streamText } from 'ai';

const palaver = createDatabricksProvider({
  baseURL: 'http://localhost:8642/eliza',
  formatUrl: ({ baseUrl }) => `${baseUrl}/invocations`,
  useRemoteToolCalling: true, // The workflow runs its own tools.
});

const { textStream } = streamText({ model: palaver.responses('eliza'), prompt: 'I need a holiday' });
for await (const text of textStream) process.stdout.write(text);
console.log();
