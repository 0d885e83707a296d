import '@/lib/zod-config';
import './styles.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { setNonce } from 'get-nonce';
import { Tooltip } from 'radix-ui';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { queryClient } from '@/api/queries';
import { App } from '@/app/app';
import { startTheme } from '@/app/theme';
import { CSP_NONCE } from '@/lib/server-path';

startTheme();
if (CSP_NONCE) setNonce(CSP_NONCE); // Style elements that Radix inserts need the nonce of the CSP.

const rootElement = document.getElementById('root');
if (rootElement) {
  createRoot(rootElement).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <Tooltip.Provider delayDuration={400}>
          <App />
        </Tooltip.Provider>
      </QueryClientProvider>
    </StrictMode>,
  );
}
